import { TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../../api/liveHooks";
import { me, type Node, nodes } from "../../../api/queries";
import { Empty, Meter, PageHead, Section } from "../../../components/basics";
import { type Column, column, DataTable, lead, numeric, type Ticks } from "../../../components/tables/DataTable";
import { FilterBar, FilterMenu } from "../../../components/tables/FilterBar";
import { LinkButton } from "../../../components/LinkButton";
import { QueryView } from "../../../components/QueryView";
import { StateBadge, stateWord } from "../../../components/StateBadge";
import { useColumnChoice } from "../../../components/tables/TableOptions";
import { Ago } from "../../../components/Time";
import * as format from "../../../lib/format";
import { MaintenanceButton, MaintenanceList } from "./Maintenance";
import { NodeState } from "./NodeState";
import { PreflightButton } from "./PreflightButton";
import { Preflights } from "./Preflights";
import { ReservationList, ReserveButton } from "./Reservations";
import { usageOf } from "./usage";

export function Nodes() {
  const { t } = useTranslation();
  const query = useQuery(nodes);
  const user = useQuery(me).data;
  useLiveQueries("cluster", ["nodes"]);
  const isAdmin = user?.role === "admin";
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const join = isAdmin ? <LinkButton to="/nodes/add">{t("nodes.join")}</LinkButton> : null;
  const all = useColumns();
  const { columns, picker } = useColumnChoice("nodes", all);
  const { shown, bar } = useNodeFilters(query.data ?? [], picker);
  const ticks: Ticks<Node> = {
    has: (node) => chosen.includes(node.name),
    onToggle: (node) =>
      setChosen(chosen.includes(node.name) ? chosen.filter((name) => name !== node.name) : [...chosen, node.name]),
    onAll: (on) => setChosen(on ? shown.map((node) => node.name) : []),
    label: (node) => t("preflight.select", { name: node.name }),
    labelAll: () => t("preflight.selectAll"),
  };
  return (
    <>
      <PageHead
        guide="guides/agents"
        title={t("nav.nodes")}
        actions={
          isAdmin && query.data && query.data.length > 0 ? (
            <>
              <ReserveButton nodes={query.data} />
              <MaintenanceButton nodes={query.data} />
              <PreflightButton chosen={chosen} />
              {join}
            </>
          ) : (
            join
          )
        }
      />
      <QueryView query={query}>
        {(data) =>
          data.length === 0 ? (
            <Empty title={t("nodes.empty")} action={join}>
              {t("nodes.emptyHint")}
            </Empty>
          ) : (
            <>
              <Section>
                {bar}
                {shown.length === 0 ? (
                  <Empty title={t("nodes.noMatch")} />
                ) : (
                  <DataTable
                    rows={shown}
                    selection={isAdmin ? ticks : undefined}
                    columns={columns}
                    rowKey={(node) => node.id}
                    label={t("nav.nodes")}
                    testId="nodes"
                  />
                )}
              </Section>
              <ReservationList nodes={data} />
              <MaintenanceList />
              <Preflights />
            </>
          )
        }
      </QueryView>
    </>
  );
}

/** Beside what everybody sees, for those who ask for it. */
const EXTRA = [
  { id: "hostname", cell: (node: Node) => node.hostname },
  { id: "address", cell: (node: Node) => node.address },
  { id: "torch", cell: (node: Node) => node.torch_version },
  { id: "python", cell: (node: Node) => node.python_version },
  { id: "driver", cell: (node: Node) => node.driver_version },
  {
    id: "labels",
    cell: (node: Node) =>
      Object.entries(node.labels)
        .map((pair) => pair.join("="))
        .join(", "),
  },
] as const;

function useColumns(): Column<Node>[] {
  const { t } = useTranslation();
  return [
    lead("name", t("nodes.name"), (node) => (
      <Link to="/nodes/$nodeId" params={{ nodeId: node.id }}>
        {node.name}
      </Link>
    )),
    column("state", t("nodes.state"), (node) => <NodeState node={node} />),
    {
      id: "slots",
      header: t("nodes.slots"),
      width: 130,
      cell: (node) => (
        <Meter
          value={node.num_slots ? node.num_slots_used / node.num_slots : null}
          text={`${node.num_slots_used}/${node.num_slots}`}
          label={t("nodes.slots")}
        />
      ),
    },
    column("type", t("nodes.type"), (node) => node.slots[0]?.slot_type ?? format.MISSING, { phone: false }),
    column("pool", t("nodes.pool"), (node) => node.pool),
    {
      id: "cpu",
      header: t("nodes.cpu"),
      width: 120,
      cell: (node) => <Meter value={usageOf(node)?.cpu ?? null} label={t("nodes.cpu")} />,
    },
    {
      id: "memory",
      header: t("nodes.memory"),
      width: 120,
      cell: (node) => <Meter value={usageOf(node)?.memory ?? null} label={t("nodes.memory")} />,
    },
    {
      id: "net",
      phone: false,
      header: t("nodes.network"),
      align: "right",
      cell: (node) => (usageOf(node) ? `${format.bytes(usageOf(node)?.net ?? null)}/s` : format.MISSING),
    },
    column("agent", t("nodes.agent"), (node) => <span className="mono">{node.agent_version}</span>, { phone: false }),
    ...EXTRA.map(({ id, cell }) => ({
      id,
      phone: false as const,
      extra: true as const,
      header: t(`nodes.more.${id}`),
      cell: (node: Node) => cell(node) || format.MISSING,
    })),
    numeric("seen", t("nodes.seen"), (node) => <Ago at={node.last_seen_at} />),
  ];
}

const STATES = ["ONLINE", "JOINING", "RECONCILING", "SUSPECT", "LOST"];

/** The nodes that match what is looked for, and the row above the table. */
function useNodeFilters(nodeList: readonly Node[], picker: ReactNode): { shown: Node[]; bar: ReactNode } {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [states, setStates] = useState<string[]>([]);
  const [pools, setPools] = useState<string[]>([]);
  const wanted = text.trim().toLowerCase();
  const allPools = [...new Set(nodeList.map((node) => node.pool))].toSorted();
  const shown = nodeList.filter(
    (node) =>
      `${node.name} ${node.hostname}`.toLowerCase().includes(wanted) &&
      (states.length === 0 || states.includes(node.state)) &&
      (pools.length === 0 || pools.includes(node.pool)),
  );
  const bar = (
    <FilterBar
      numActive={Number(states.length > 0) + Number(pools.length > 0)}
      find={
        <TextInput
          size="xs"
          aria-label={t("nodes.find")}
          placeholder={t("nodes.find")}
          leftSection={<IconSearch size={14} />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          data-filter
        />
      }
    >
      <FilterMenu
        label={t("nodes.state")}
        options={STATES.map((state) => ({
          value: state,
          label: <StateBadge state={state} plain />,
          text: stateWord(t, state),
        }))}
        chosen={states}
        onChange={setStates}
      />
      {allPools.length > 1 ? (
        <FilterMenu
          label={t("nodes.pool")}
          options={allPools.map((pool) => ({ value: pool, label: pool, text: pool }))}
          chosen={pools}
          onChange={setPools}
        />
      ) : null}
      <div data-end>{picker}</div>
    </FilterBar>
  );
  return { shown, bar };
}
