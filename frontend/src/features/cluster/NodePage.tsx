import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { me, type Node, node as nodeQuery, nodeEvents } from "../../api/queries";
import { KeyValues, Notice, PageHead, Section, Stats } from "../../components/basics";
import { Events } from "../../components/Events";
import { QueryView } from "../../components/QueryView";
import { Ago, Stamp } from "../../components/Time";
import * as format from "../../lib/format";
import { NodeState } from "./Nodes";
import { NodeScheduling } from "./NodeScheduling";
import { NodeSlots } from "./NodeSlots";
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
        actions={user?.role === "admin" ? <NodeScheduling node={node} /> : null}
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
      {node.scheduling === "open" ? null : <Notice title={t(`nodes.now.${node.scheduling}`)}>{node.scheduling === "draining" && node.num_slots_used > 0 ? t("nodes.stillHeld", { count: node.num_slots_used }) : null}</Notice>}
      {node.health === "ok" ? null : <Notice tone={node.health === "quarantined" ? "bad" : "warn"} title={t(`nodes.health.${node.health}` as "nodes.health.degraded", { defaultValue: node.health })}>{node.health_reason}</Notice>}
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
        <NodeSlots node={node} />
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
