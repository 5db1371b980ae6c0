import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { me, type Node, nodes } from "../../api/queries";
import { Empty, Meter, PageHead, Section } from "../../components/basics";
import { type Column, DataTable, type Ticks } from "../../components/DataTable";
import { LinkButton } from "../../components/LinkButton";
import { QueryView } from "../../components/QueryView";
import { reasonText } from "../../components/Message";
import { StateBadge } from "../../components/StateBadge";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import { PreflightButton } from "./PreflightButton";
import { Preflights } from "./Preflights";
import { usageOf } from "./usage";

export function Nodes() {
  const { t } = useTranslation();
  const query = useQuery(nodes);
  const user = useQuery(me).data;
  useLiveQueries("cluster", ["nodes"]);
  const isAdmin = user?.role === "admin";
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const ticks: Ticks<Node> = {
    has: (node) => chosen.includes(node.name),
    onToggle: (node) =>
      setChosen(chosen.includes(node.name) ? chosen.filter((name) => name !== node.name) : [...chosen, node.name]),
    onAll: (on) => setChosen(on ? (query.data ?? []).map((node) => node.name) : []),
    label: (node) => t("preflight.select", { name: node.name }),
    labelAll: t("preflight.selectAll"),
  };
  const join = isAdmin ? (
    <LinkButton to="/settings" search={{ tab: "join" }}>
      {t("nodes.join")}
    </LinkButton>
  ) : null;
  const columns: Column<Node>[] = [
    {
      id: "name",
      header: t("nodes.name"),
      lead: true,
      cell: (node) => (
        <Link to="/nodes/$nodeId" params={{ nodeId: node.id }}>
          {node.name}
        </Link>
      ),
    },
    { id: "state", header: t("nodes.state"), cell: (node) => <NodeState node={node} /> },
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
    { id: "type", phone: false, header: t("nodes.type"), cell: (node) => node.slots[0]?.slot_type ?? format.MISSING },
    { id: "pool", header: t("nodes.pool"), cell: (node) => node.pool },
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
    {
      id: "agent",
      phone: false,
      header: t("nodes.agent"),
      cell: (node) => <span className="mono">{node.agent_version}</span>,
    },
    { id: "seen", header: t("nodes.seen"), align: "right", cell: (node) => <Ago at={node.last_seen_at} /> },
  ];
  return (
    <>
      <PageHead
        guide="guides/agents"
        title={t("nav.nodes")}
        actions={
          isAdmin && query.data && query.data.length > 0 ? (
            <>
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
                <DataTable
                  rows={data}
                  selection={isAdmin ? ticks : undefined}
                  columns={columns}
                  rowKey={(node) => node.id}
                  label={t("nav.nodes")}
                  testId="nodes"
                />
              </Section>
              <Preflights />
            </>
          )
        }
      </QueryView>
    </>
  );
}

export function NodeState({ node }: { node: Node }) {
  const { t } = useTranslation();
  return (
    <span>
      <span title={reasonText(node.state_reason, node.state_parts)}>
        <StateBadge state={node.state} plain />
      </span>
      {node.scheduling === "open" ? null : <span className="dim"> · {t(`nodes.scheduling.${node.scheduling}`)}</span>}
      {node.health === "ok" ? null : (
        <span
          style={{ color: node.health === "quarantined" ? "var(--bad)" : "var(--warn)" }}
          title={node.health_reason}
        >
          {" "}
          · {t(`nodes.healthWord.${node.health}` as "nodes.healthWord.ok", { defaultValue: node.health })}
        </span>
      )}
    </span>
  );
}
