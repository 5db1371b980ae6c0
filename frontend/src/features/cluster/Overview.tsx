import {
  type InfiniteData,
  useInfiniteQuery,
  type UseInfiniteQueryResult,
  useQuery,
  type UseQueryResult,
} from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type Cluster, cluster, type Experiment, experiments, type Node, nodes } from "../../api/queries";
import { DemoNotice } from "../../common/demo/DemoData";
import { Empty, PageHead, Section, Skeleton, Stats } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { SubmitLink } from "../../components/SubmitLink";
import { useNow } from "../../components/useNow";
import * as format from "../../lib/format";
import { elapsedS } from "../../lib/time";
import { AttentionList } from "./AttentionList";
import css from "./cluster.module.css";
import { FirstRun, isFirst } from "./FirstRun";
import { NodeHeatMap } from "./NodeHeatMap";
import { RecentTable, RunningTable } from "./OverviewTables";
import { QueueSummary } from "./QueueSummary";
import { lastEnded } from "./recent";
import { SlotStrip } from "./nodes/SlotStrip";
import { firstJoined } from "./utilization";
import { Utilization } from "./Utilization";

/** Above so many nodes each one is a cell, not a row. */
const MAX_ROWS = 24;
const FEW_NODES = 6;

/** Where the nodes stand: beside the utilization while they are few (the queue is then below what runs), else below. */
type Layout = "none" | "beside" | "below";

function layoutOf(numNodes: number): Layout {
  if (numNodes === 0) return "none";
  return numNodes <= FEW_NODES ? "beside" : "below";
}

export function Overview() {
  const { t } = useTranslation();
  const state = useQuery(cluster);
  const nodeList = useQuery(nodes);
  const active = useInfiniteQuery(experiments({ state: ["RUNNING", "STOPPING"] }, 10));
  const newest = useInfiniteQuery(experiments({}, 1));
  // What ended is not pushed out of sight by what was submitted since.
  const ended = useInfiniteQuery(experiments({ state: ["COMPLETED", "FAILED", "CANCELED"] }, 20));
  useLiveQueries("cluster", ["cluster"], ["nodes"], ["queue"]);
  useLiveQueries("experiments", ["experiments"]);
  const [activeItems, endedItems] = [active, ended].map(
    (list) => list.data?.pages.flatMap((page) => page.items) ?? [],
  ) as [Experiment[], Experiment[]];
  const latest = newest.data?.pages[0]?.items[0];
  const layout = layoutOf(nodeList.data?.length ?? 0);
  const hasNode = layout !== "none";
  const waiting = state.data?.num_trials_queued ?? 0;
  const isNew = nodeList.data?.length === 0 || (newest.data !== undefined && isFirst(latest));
  return (
    <>
      <PageHead guide="guides/dashboard#overview-what-is-the-cluster-doing" title={t("overview.title")} />
      <AttentionList cluster={state.data} nodes={nodeList.data ?? []} />
      <QueryView query={state} skeleton={<Skeleton rows={3} />}>
        {(data) => <Numbers cluster={data} />}
      </QueryView>
      <DemoNotice />
      <div className={hasNode ? css["beside"] : undefined}>
        {/* Before anything was trained there is no utilization to speak of, but something to do. */}
        {isNew ? <FirstRun hasNode={hasNode} latest={latest} /> : null}
        {!isNew && hasNode ? (
          <Utilization
            since={firstJoined(nodeList.data ?? [])}
            now={state.data?.pools ?? []}
            isLow={layout === "beside"}
          />
        ) : null}
        {layout === "beside" ? <Slots query={nodeList} isNarrow /> : null}
        {layout === "below" ? <QueueSummary cluster={state.data} /> : null}
      </div>
      {isNew && activeItems.length === 0 ? null : (
        <Running query={active} items={activeItems} count={state.data?.num_experiments_running ?? 0} />
      )}
      {layout === "beside" && waiting > 0 ? <QueueSummary cluster={state.data} isWide /> : null}
      {layout === "below" || (layout === "none" && !isNew) ? <Slots query={nodeList} /> : null}
      {endedItems.length > 0 ? (
        <Section title={t("overview.recent")}>
          <RecentTable items={lastEnded(endedItems, 6)} />
        </Section>
      ) : null}
    </>
  );
}

interface RunningProps {
  query: UseInfiniteQueryResult<InfiniteData<{ items: Experiment[] }>>;
  items: Experiment[];
  /** How many there are, of which `items` may be the first. */
  count: number;
}

/** What runs now; when nothing does, the way to submit something. */
function Running({ query, items, count }: RunningProps) {
  const { t } = useTranslation();
  return (
    <Section
      title={t("overview.running")}
      note={<Link to="/experiments">{query.hasNextPage ? t("overview.allOf", { count }) : t("overview.all")}</Link>}
    >
      <QueryView query={query}>
        {() =>
          items.length === 0 ? (
            <Empty title={t("overview.idle")} action={<SubmitLink />} />
          ) : (
            <RunningTable items={items} />
          )
        }
      </QueryView>
    </Section>
  );
}

/** What every slot is used for; of many nodes, how full each one is. */
function Slots({ query, isNarrow = false }: { query: UseQueryResult<Node[]>; isNarrow?: boolean }) {
  const { t } = useTranslation();
  const isMany = (query.data?.length ?? 0) > MAX_ROWS;
  const note = t(isMany ? "overview.nodesNote" : "overview.slotsNote");
  return (
    <Section
      title={t(isMany ? "overview.nodes" : "overview.slots")}
      note={isNarrow ? <Link to="/nodes">{t("nav.nodes")}</Link> : note}
    >
      <QueryView query={query}>
        {(data) =>
          data.length === 0 ? (
            <Empty title={t("nodes.empty")}>{t("nodes.emptyHint")}</Empty>
          ) : isMany ? (
            <NodeHeatMap nodes={data} />
          ) : (
            <SlotStrip nodes={data} />
          )
        }
      </QueryView>
      {isNarrow ? <p className={css["stripNote"]}>{note}</p> : null}
    </Section>
  );
}

function Numbers({ cluster: data }: { cluster: Cluster }) {
  const { t } = useTranslation();
  const now = useNow();
  const waiting = elapsedS(data.oldest_queued_at, null, now);
  return (
    <Stats
      items={[
        {
          testId: "stat-slots",
          label: t("overview.slotsBusy"),
          value: (
            <>
              {data.num_slots_used}
              <small> / {data.num_slots}</small>
            </>
          ),
          note: `${t("overview.slotsFree", { free: data.num_slots_free })} · ${t("overview.nodesOnline", { online: data.num_nodes_online, all: data.num_nodes })}`,
          tone: data.num_nodes_online < data.num_nodes ? "warn" : undefined,
        },
        {
          testId: "stat-queue",
          label: t("overview.queued"),
          value: format.count(data.num_trials_queued),
          note: waiting === null ? t("overview.noneWaiting") : t("overview.oldest", { age: format.duration(waiting) }),
        },
        {
          testId: "stat-throughput",
          label: t("overview.throughput"),
          value: format.si(data.samples_per_s),
          note:
            data.num_trials_throughput > 0
              ? t("overview.samples", { count: data.num_trials_throughput })
              : t("overview.noneReports"),
        },
        {
          testId: "stat-comm",
          label: t("overview.comm"),
          value: format.pct(data.comm_overhead_ratio),
          note:
            data.num_trials_comm > 0
              ? t("overview.commOver", { count: data.num_workers_comm })
              : t("overview.noneReports"),
        },
      ]}
    />
  );
}
