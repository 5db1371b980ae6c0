import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { useLiveQueries } from "../../../api/liveHooks";
import { me, type Node, nodes, preflight } from "../../../api/queries";
import { Code, Lines, Notice, PageHead, Section } from "../../../components/basics";
import layout from "../../../components/layout.module.css";
import { LinkButton } from "../../../components/LinkButton";
import { ErrorNotice, QueryView } from "../../../components/QueryView";
import { Tabs } from "../../../components/Tabs";
import { SERVER } from "../../../lib/address";
import { Steps } from "../Steps";
import {
  arrivals,
  firstJob,
  INSTALL,
  isForThisMachine,
  isProvider,
  providerCommand,
  sshCommands,
  type Way,
  wayOf,
  WAYS,
} from "./joining";
import { NodeHealth } from "./NodeHealth";
import { NodeState } from "./NodeState";
import { failures } from "./preflightResult";
import { PreflightState } from "./Preflights";

const LIFETIME_S = 3600;
/** Number of nodes that one preflight takes. */
const MAX_CHECKED = 64;
const GUIDES: Record<Way, string> = {
  ssh: "guides/agents#add-a-machine-that-you-reach-with-ssh",
  command: "guides/agents#join-a-machine",
  slurm: "guides/slurm#let-muster-submit-pilots",
  kubernetes: "guides/kubernetes#run-pilots",
  ray: "guides/ray",
};

/** From a machine to its first job: what to run there, the node as it arrives, its check, and something to train. */
export function AddNode() {
  const { t } = useTranslation();
  const way = wayOf(useSearch({ from: "/app/nodes/add" }).tab);
  const isAdmin = useQuery(me).data?.role === "admin";
  const query = useQuery(nodes);
  useLiveQueries("cluster", ["nodes"]);
  return (
    <>
      <PageHead guide={GUIDES[way]} title={t("nodes.join")} />
      {isAdmin ? (
        <Tabs label={t("addNode.way")} active={way} tabs={WAYS.map((id) => ({ id, label: t(`addNode.ways.${id}`) }))} />
      ) : null}
      <QueryView query={query}>
        {(all) => (isAdmin ? <Guide way={way} all={all} /> : <Notice title={t("first.askAdmin")} />)}
      </QueryView>
    </>
  );
}

function Guide({ way, all }: { way: Way; all: readonly Node[] }) {
  const { t } = useTranslation();
  const [pool, setPool] = useState("default");
  // What was there when the page was opened; whatever comes later is new.
  const [before] = useState<ReadonlySet<string>>(() => new Set(all.map((node) => node.id)));
  const arrived = arrivals(before, all);
  const online = arrived.filter((node) => node.state === "ONLINE");
  const check = useMutation({
    mutationFn: (names: string[]) => unwrap(client.POST("/api/v1/preflights", { body: { nodes: names } })),
  });
  const checked = useQuery({ ...preflight(String(check.data?.id ?? 0)), enabled: check.data !== undefined }).data;
  const [first] = online;
  return (
    <Section title={t("addNode.steps")}>
      <Steps
        steps={[
          {
            key: "run",
            title: t("addNode.run"),
            done: arrived.length > 0,
            body: <Run key={way} way={way} pool={pool} onPool={setPool} />,
          },
          {
            key: "arrive",
            title: t("addNode.arrive"),
            done: online.length > 0,
            body: <Arrived nodes={arrived} isPilot={isProvider(way)} pool={pool} />,
          },
          {
            key: "check",
            title: t("addNode.check"),
            done: checked?.state === "passed",
            body: (
              <div className={`${layout["stack"]} ${layout["atStart"]}`}>
                <p className={`dim ${layout["text"]}`}>{t("addNode.checkHint")}</p>
                {checked ? (
                  <span>
                    <PreflightState state={checked.state} />{" "}
                    <Link to="/preflights/$preflightId" params={{ preflightId: String(checked.id) }}>
                      {t("preflight.title", { id: checked.id })}
                    </Link>
                  </span>
                ) : null}
                {checked ? <Lines items={failures(checked)} /> : null}
                {check.error ? <ErrorNotice error={check.error} /> : null}
                <Button
                  variant="default"
                  disabled={online.length === 0}
                  loading={check.isPending || checked?.state === "running"}
                  onClick={() => check.mutate(online.slice(0, MAX_CHECKED).map((node) => node.name))}
                >
                  {t("addNode.checkButton")}
                </Button>
              </div>
            ),
          },
          {
            key: "train",
            title: t("addNode.train"),
            done: false,
            body: first ? (
              <div className={`${layout["stack"]} ${layout["atStart"]}`}>
                <p className={`dim ${layout["text"]}`}>{t("addNode.trainHint", { name: first.name })}</p>
                <LinkButton to="/submit" search={firstJob(first)}>
                  {t("addNode.trainButton", { name: first.name })}
                </LinkButton>
              </div>
            ) : null,
          },
        ]}
      />
    </Section>
  );
}

/** The command of the chosen way, with what it depends on. */
function Run({ way, pool, onPool }: { way: Way; pool: string; onPool: (pool: string) => void }) {
  const { t } = useTranslation();
  const [machine, setMachine] = useState("");
  const token = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/join-tokens", { body: { pool: pool.trim(), uses: 1, expires_in_s: LIFETIME_S } })),
  });
  const isHere = way === "command" ? token.data?.this_machine_only : isForThisMachine(location.hostname);
  const named = pool.trim() || "default";
  return (
    <div className={layout["stack"]}>
      <p className={`dim ${layout["text"]}`}>{t(`addNode.hint.${way}`)}</p>
      <div className={layout["fields"]}>
        {way === "ssh" ? (
          <TextInput
            label={t("addNode.machine")}
            placeholder="ann@gpu1"
            value={machine}
            onChange={(event) => setMachine(event.currentTarget.value)}
            w={200}
          />
        ) : null}
        <TextInput
          label={t("nodes.pool")}
          value={pool}
          onChange={(event) => onPool(event.currentTarget.value)}
          maxLength={64}
          w={160}
        />
        {way === "command" ? (
          <Button loading={token.isPending} disabled={pool.trim() === ""} onClick={() => token.mutate()}>
            {t("addNode.command")}
          </Button>
        ) : null}
      </div>
      {token.error ? <ErrorNotice error={token.error} /> : null}
      {way === "ssh" ? (
        <Code text={sshCommands(machine.trim() || "USER@HOST", named, SERVER)} wrap testId="join" />
      ) : null}
      {isProvider(way) ? (
        <>
          <Code text={providerCommand(way, named, SERVER)} wrap testId="join" />
          <Link to="/settings" search={{ tab: "pools" }}>
            {t("addNode.inPools")}
          </Link>
        </>
      ) : null}
      {way === "command" ? <Code text={INSTALL} wrap /> : null}
      {token.data ? (
        <>
          <Notice tone="ok" title={t("addNode.once")} />
          <Code text={token.data.command} wrap testId="join" />
        </>
      ) : null}
      {isHere ? (
        <Notice tone="warn" title={t("join.thisMachineOnly")}>
          {t("join.thisMachineOnlyHint")}
        </Notice>
      ) : null}
    </div>
  );
}

function Arrived({ nodes: found, isPilot, pool }: { nodes: Node[]; isPilot: boolean; pool: string }) {
  const { t } = useTranslation();
  if (found.length > 0)
    return (
      <div className={layout["stack"]} role="status">
        {found.map((node) => (
          <div key={node.id}>
            <Link to="/nodes/$nodeId" params={{ nodeId: node.id }}>
              {node.name}
            </Link>{" "}
            <NodeState node={node} />{" "}
            <span className="dim">
              {t("addNode.slots", { count: node.num_slots, type: node.slots[0]?.slot_type ?? "", pool: node.pool })}
            </span>
            <NodeHealth node={node} />
          </div>
        ))}
      </div>
    );
  return (
    <div className={`${layout["stack"]} ${layout["atStart"]}`} role="status">
      <p className={`dim ${layout["text"]}`}>{t(isPilot ? "addNode.waitsForTrial" : "addNode.waits")}</p>
      {isPilot ? (
        <LinkButton to="/submit" search={firstJob({ pool: pool.trim() || "default" })} variant="default">
          {t("addNode.poolJob", { pool: pool.trim() || "default" })}
        </LinkButton>
      ) : null}
    </div>
  );
}
