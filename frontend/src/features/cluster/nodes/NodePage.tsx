import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../../api/liveHooks";
import { me, type Node, node as nodeQuery, nodeEvents } from "../../../api/queries";
import { KeyValues, Notice, PageHead, Section, Stats } from "../../../components/basics";
import { Events } from "../../../components/Events";
import { QueryView } from "../../../components/QueryView";
import { Reason } from "../../../components/text/Message";
import { Ago, Stamp } from "../../../components/Time";
import { word } from "../../../i18n/words";
import * as format from "../../../lib/format";
import { NodeHealth } from "./NodeHealth";
import { NodeHistory } from "./NodeHistory";
import { NodeState } from "./NodeState";
import { NodeScheduling } from "./NodeScheduling";
import { NodeSlots } from "./NodeSlots";
import { versionsOf } from "./nodeUse";
import { PreflightButton } from "./PreflightButton";
import { SystemMetricsView } from "../../../common/nodes/SystemMetrics";
import { usageOf } from "./usage";

export function NodePage() {
  const { nodeId } = useParams({ from: "/app/nodes/$nodeId" });
  const query = useQuery(nodeQuery(nodeId));
  useLiveQueries("cluster", ["nodes", nodeId]);
  return (
    <QueryView query={query} isPage>
      {(data) => <NodeView node={data} />}
    </QueryView>
  );
}

function NodeView({ node }: { node: Node }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const events = useInfiniteQuery(nodeEvents(node.id));
  return (
    <>
      <PageHead
        guide="guides/agents#health-and-quarantine"
        title={node.name}
        badge={<NodeState node={node} />}
        actions={
          user?.role === "admin" ? (
            <>
              <PreflightButton chosen={[node.name]} />
              <NodeScheduling node={node} />
            </>
          ) : null
        }
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
          {node.state_reason ? <Reason text={node.state_reason} parts={node.state_parts} /> : null}{" "}
          {t(node.state === "LOST" ? "nodes.lostHint" : "nodes.suspectHint")}
        </Notice>
      ) : null}
      {node.scheduling === "open" ? null : (
        <Notice title={t(`nodes.now.${node.scheduling}`)}>
          {node.scheduling === "draining" && node.num_slots_used > 0
            ? t("nodes.stillHeld", { count: node.num_slots_used })
            : null}
        </Notice>
      )}
      <NodeHealth node={node} />
      <NodeStats node={node} />
      <Section title={t("nodes.slots")}>
        <NodeSlots node={node} />
      </Section>
      <Section title={t("nodes.system")} note={t("nodes.systemNote")}>
        <SystemMetricsView node={node.id} />
      </Section>
      <Section title={t("nodes.facts")}>
        <NodeFacts node={node} />
      </Section>
      <NodeHistory nodeId={node.id} />
      <Section title={t("trial.tab.events")}>
        <Events query={events} />
      </Section>
    </>
  );
}

/** What is used of the node now. */
function NodeStats({ node }: { node: Node }) {
  const { t } = useTranslation();
  const usage = usageOf(node);
  return (
    <Stats
      items={[
        {
          label: t("nodes.slots"),
          value: (
            <>
              {node.num_slots_used}
              <small> / {node.num_slots}</small>
            </>
          ),
          note: `${t("nodes.slotsUsed")} · ${t("overview.slotsFree", { free: node.num_slots_free })}`,
        },
        {
          label: t("nodes.cpu"),
          value: format.pct(usage?.cpu),
          note: t("nodes.cores", { count: node.num_cpus, load: format.num(usage?.load, 3) }),
        },
        {
          label: t("nodes.memory"),
          value: format.pct(usage?.memory),
          note: usage
            ? `${format.bytes(usage.memoryUsed)} / ${format.bytes(usage.memoryTotal)}`
            : format.bytes(node.memory_bytes),
        },
        {
          label: t("nodes.network"),
          value: usage ? `${format.bytes(usage.net)}/s` : format.MISSING,
          note: usage ? `↑ ${format.bytes(usage.sent)}/s ↓ ${format.bytes(usage.received)}/s` : "",
        },
        { label: t("nodes.disk"), value: format.bytes(usage?.diskFree), note: t("nodes.diskFree") },
      ]}
    />
  );
}

/** What its batch system calls a pilot, and when it ends. */
function pilotFact(label: string, open: string, node: Node): [string, ReactNode] {
  return [
    label,
    <span key="p">
      {node.provider_ref ? <span className="mono">{node.provider_ref} </span> : null}
      {node.ends_at === null ? open : <Stamp at={node.ends_at} />}
    </span>,
  ];
}

/** What the node is: its addresses, versions and labels. */
function NodeFacts({ node }: { node: Node }) {
  const { t } = useTranslation();
  const pulled = usageOf(node)?.images;
  const images = pulled ? { bytes: format.bytes(pulled.bytes), limit: format.bytes(pulled.limit) } : null;
  return (
    <KeyValues
      items={[
        [
          "ID",
          <span key="id" className="mono">
            {node.id}
          </span>,
        ],
        [t("nodes.hostname"), node.hostname],
        [
          t("nodes.address"),
          <span key="a" className="mono">
            {node.address}
          </span>,
        ],
        [t("nodes.health"), word(t, "nodes.healthWord", node.health)],
        [
          t("nodes.clock"),
          node.clock_skew_s === null
            ? t("nodes.clockUnknown")
            : t("nodes.clockSkew", { skew: format.ms(node.clock_skew_s * 1000) }),
        ],
        [
          t("nodes.versions"),
          versionsOf(node)
            .map(([name, version]) => `${name} ${version}`)
            .join(" · "),
        ],
        [
          t("nodes.isolation"),
          <span key="i" title={node.isolation_reason}>
            {t(`nodes.isolationLevel.${node.isolation}`)}
            {node.isolation_reason ? <span className="dim"> · {node.isolation_reason}</span> : null}
          </span>,
        ],
        [
          t("nodes.containers"),
          <span key="c" title={node.container_reason}>
            {`${node.container_runtime} ${node.container_version}`.trim() || t("nodes.noContainers")}
            {images ? <span className="dim"> · {t("nodes.images", images)}</span> : null}
            {node.container_reason ? <span className="dim"> · {node.container_reason}</span> : null}
          </span>,
        ],
        [
          t("nodes.labels"),
          Object.keys(node.labels).length === 0 ? (
            <span key="l" className="dim">
              {t("nodes.noLabels")}
            </span>
          ) : (
            <span key="l" className="mono">
              {Object.entries(node.labels)
                .map(([key, value]) => `${key}=${value}`)
                .join("  ")}
            </span>
          ),
        ],
        [t("nodes.registered"), <Stamp key="r" at={node.registered_at} />],
        ...(node.is_pilot ? [pilotFact(t("nodes.pilot"), t("nodes.pilotOpen"), node)] : []),
      ]}
    />
  );
}
