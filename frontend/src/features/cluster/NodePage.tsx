import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { me, type Node, node as nodeQuery, nodeEvents } from "../../api/queries";
import { KeyValues, Notice, PageHead, Section, Stats } from "../../components/basics";
import { Confirm } from "../../components/Confirm";
import { Events } from "../../components/Events";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { Ago, Stamp } from "../../components/Time";
import * as format from "../../lib/format";
import { seriesIndex } from "../../lib/states";
import css from "./cluster.module.css";
import { NodeState } from "./Nodes";
import { usageOf } from "./usage";

export function NodePage() {
  const { nodeId } = useParams({ from: "/app/nodes/$nodeId" });
  const query = useQuery(nodeQuery(nodeId));
  useLiveQueries("cluster", ["nodes", nodeId]);
  return <QueryView query={query}>{(data) => <NodeView node={data} />}</QueryView>;
}

function NodeView({ node }: { node: Node }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const usage = usageOf(node);
  const events = useInfiniteQuery(nodeEvents(node.id));
  return (
    <>
      <PageHead
        title={node.name}
        badge={<NodeState node={node} />}
        actions={user?.role === "admin" ? <Actions node={node} /> : null}
        sub={
          <>
            <span>{t("nodes.inPool", { pool: node.pool })}</span>
            <span>
              {t("nodes.heard")} <Ago at={node.last_seen_at} />
            </span>
          </>
        }
      />
      {node.state === "LOST" || node.state === "SUSPECT" ? (
        <Notice tone={node.state === "LOST" ? "bad" : "warn"} title={t("nodes.lostTitle")}>
          {t(node.state === "LOST" ? "nodes.lostHint" : "nodes.suspectHint")}
        </Notice>
      ) : null}
      {node.health === "ok" ? null : <Notice tone="warn" title={node.health}>{node.health_reason}</Notice>}
      <Stats
        items={[
          { label: t("nodes.slots"), value: <>{node.num_slots_used}<small> / {node.num_slots}</small></>, note: t("nodes.slotsUsed") },
          { label: t("nodes.cpu"), value: format.pct(usage?.cpu), note: t("nodes.cores", { count: node.num_cpus, load: format.num(usage?.load, 3) }) },
          { label: t("nodes.memory"), value: format.pct(usage?.memory), note: usage ? `${format.bytes(usage.memoryUsed)} / ${format.bytes(usage.memoryTotal)}` : format.bytes(node.memory_bytes) },
          { label: t("nodes.network"), value: usage ? `${format.bytes(usage.net)}/s` : format.MISSING, note: usage ? `↑ ${format.bytes(usage.sent)}/s ↓ ${format.bytes(usage.received)}/s` : "" },
          { label: t("nodes.disk"), value: format.bytes(usage?.diskFree), note: t("nodes.diskFree") },
        ]}
      />
      <Section title={t("nodes.slots")}>
        <div className={css["slotGrid"]} data-testid="slots">
          {node.slots.map((slot) => (
            <div key={slot.index} className={css["slotCard"]} style={{ borderLeftColor: slot.experiment_id === null ? "var(--line-strong)" : `var(--series-${seriesIndex(slot.experiment_id)})` }}>
              <h3>
                <span>{t("slot.no", { index: slot.index })}</span>
                <span className="dim">{slot.slot_type}</span>
              </h3>
              <div className="dim">{slot.name || format.MISSING}{slot.memory_bytes > 0 ? ` · ${format.bytes(slot.memory_bytes)}` : ""}</div>
              {slot.trial_id === null ? (
                <div className="dim">{t(node.state === "ONLINE" && node.scheduling === "open" ? "slot.free" : "slot.closed")}</div>
              ) : (
                <Link to="/trials/$trialId" params={{ trialId: String(slot.trial_id) }}>
                  {slot.experiment_name ?? `#${slot.experiment_id}`} · {slot.rank === null ? t("slot.trial", { id: slot.trial_id }) : t("rank.no", { rank: slot.rank })}
                </Link>
              )}
            </div>
          ))}
        </div>
      </Section>
      <Section title={t("nodes.facts")}>
        <KeyValues
          items={[
            ["ID", <span key="id" className="mono">{node.id}</span>],
            [t("nodes.hostname"), node.hostname],
            [t("nodes.address"), <span key="a" className="mono">{node.address}</span>],
            [t("nodes.versions"), `agent ${node.agent_version} · Python ${node.python_version || format.MISSING} · torch ${node.torch_version || format.MISSING}`],
            [t("nodes.labels"), Object.entries(node.labels).map(([key, value]) => `${key}=${value}`).join("  ") || format.MISSING],
            [t("nodes.registered"), <Stamp key="r" at={node.registered_at} />],
          ]}
        />
      </Section>
      <Section title={t("trial.tab.events")}>
        <Events query={events} />
      </Section>
    </>
  );
}

function Actions({ node }: { node: Node }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const [removing, setRemoving] = useState(false);
  const patch = useMutation({
    mutationFn: (scheduling: Node["scheduling"]) =>
      unwrap(client.PATCH("/api/v1/nodes/{node_id}", { params: { path: { node_id: node.id } }, body: { scheduling } })),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["nodes"] }),
  });
  const remove = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/nodes/{node_id}", { params: { path: { node_id: node.id } } })),
    onSuccess: async () => {
      await navigate({ to: "/nodes" });
      await queryClient.invalidateQueries({ queryKey: ["nodes"] });
    },
  });
  return (
    <>
      {patch.error ? <ErrorNotice error={patch.error} /> : null}
      {node.scheduling === "open" ? (
        <>
          <Button variant="default" loading={patch.isPending} onClick={() => patch.mutate("cordoned")} title={t("nodes.cordonHint")}>
            {t("nodes.cordon")}
          </Button>
          <Button variant="default" loading={patch.isPending} onClick={() => patch.mutate("draining")} title={t("nodes.drainHint")}>
            {t("nodes.drain")}
          </Button>
        </>
      ) : (
        <Button variant="default" loading={patch.isPending} onClick={() => patch.mutate("open")}>
          {t("nodes.open")}
        </Button>
      )}
      {node.num_slots_used === 0 && (node.state === "LOST" || node.scheduling !== "open") ? (
        <Button color="red" variant="light" onClick={() => setRemoving(true)}>
          {t("nodes.remove")}
        </Button>
      ) : null}
      <Confirm opened={removing} onClose={() => setRemoving(false)} title={t("nodes.removeTitle")} action={t("nodes.remove")} pending={remove.isPending} error={remove.error} onConfirm={() => remove.mutate()}>
        {t("nodes.removeText", { name: node.name })}
      </Confirm>
    </>
  );
}
