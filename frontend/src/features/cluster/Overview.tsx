import { IconAlertTriangle, IconCircleX } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type Cluster, cluster, type Experiment, experiments, type Node, nodes } from "../../api/queries";
import { DemoNotice } from "../../common/demo/DemoData";
import { Headline } from "../../common/headline/Headline";
import { Empty, Meter, PageHead, Section, Skeleton, Stats, TrialsBar } from "../../components/basics";
import { DataTable } from "../../components/DataTable";
import { ExperimentLink } from "../../components/ExperimentLink";
import { SubmitLink } from "../../components/SubmitLink";
import { QueryView } from "../../components/QueryView";
import { Reason } from "../../components/Message";
import { StateBadge } from "../../components/StateBadge";
import { Ago, Elapsed } from "../../components/Time";
import { useNow } from "../../components/useNow";
import * as format from "../../lib/format";
import { shownState, slotsText } from "../../lib/held";
import { elapsedS } from "../../lib/time";
import { attention } from "./attention";
import css from "./cluster.module.css";
import { FirstRun, isFirst } from "./FirstRun";
import { lastEnded } from "./recent";
import { SlotStrip } from "./SlotStrip";

export function Overview() {
  const { t } = useTranslation();
  const state = useQuery(cluster);
  const nodeList = useQuery(nodes);
  const active = useInfiniteQuery(experiments({ state: ["RUNNING", "STOPPING"] }, 10));
  const newest = useInfiniteQuery(experiments({}, 1));
  // What ended or failed is not pushed out of sight by what was submitted since.
  const ended = useInfiniteQuery(experiments({ state: ["COMPLETED", "FAILED", "CANCELED"] }, 20));
  const failed = useInfiniteQuery(experiments({ state: ["FAILED"] }, 10));
  useLiveQueries("cluster", ["cluster"], ["nodes"]);
  useLiveQueries("experiments", ["experiments"]);
  const [activeItems, endedItems, failedItems] = [active, ended, failed].map(
    (list) => list.data?.pages.flatMap((page) => page.items) ?? [],
  ) as [Experiment[], Experiment[], Experiment[]];
  const latest = newest.data?.pages[0]?.items[0];
  const isNew = nodeList.data?.length === 0 || (newest.data !== undefined && isFirst(latest));
  return (
    <>
      <PageHead guide="guides/dashboard#overview-what-is-the-cluster-doing" title={t("overview.title")} />
      <AttentionList cluster={state.data} nodes={nodeList.data ?? []} experiments={[...failedItems, ...activeItems]} />
      <QueryView query={state} skeleton={<Skeleton rows={3} />}>
        {(data) => <Numbers cluster={data} />}
      </QueryView>
      <DemoNotice />
      {isNew ? <FirstRun hasNode={(nodeList.data?.length ?? 0) > 0} latest={latest} /> : null}
      <Section title={t("overview.slots")} note={t("overview.slotsNote")}>
        <QueryView query={nodeList}>
          {(data) =>
            data.length === 0 ? (
              <Empty title={t("nodes.empty")}>{t("nodes.emptyHint")}</Empty>
            ) : (
              <SlotStrip nodes={data} />
            )
          }
        </QueryView>
      </Section>
      <Section
        title={t("overview.running")}
        note={
          <Link to="/experiments">
            {active.hasNextPage
              ? t("overview.allOf", { count: state.data?.num_experiments_running ?? 0 })
              : t("overview.all")}
          </Link>
        }
      >
        <QueryView query={active}>
          {(data) => {
            const items = data.pages.flatMap((page) => page.items);
            return items.length === 0 ? (
              <Empty title={t("overview.idle")} action={<SubmitLink />} />
            ) : (
              <RunningTable items={items} />
            );
          }}
        </QueryView>
      </Section>
      {endedItems.length > 0 ? (
        <Section title={t("overview.recent")}>
          <RecentTable items={lastEnded(endedItems, 6)} />
        </Section>
      ) : null}
    </>
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
          note: t("overview.nodesOnline", { online: data.num_nodes_online, all: data.num_nodes }),
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
              ? t("overview.commOver", {
                  count: data.num_trials_comm,
                  steps: t("overview.steps", { count: data.num_values_comm }),
                })
              : t("overview.noneReports"),
          tone: (data.comm_overhead_ratio ?? 0) >= 0.3 ? "warn" : undefined,
        },
      ]}
    />
  );
}

const MAX_ATTENTION = 8;

function AttentionList(props: { cluster: Cluster | undefined; nodes: Node[]; experiments: Experiment[] }) {
  const { t } = useTranslation();
  const now = useNow();
  const items = attention(props.cluster, props.nodes, props.experiments, now);
  if (items.length === 0) return null;
  return (
    <ul className={css["attention"]} aria-label={t("attention.label")} data-testid="attention">
      {items.slice(0, MAX_ATTENTION).map((item) => (
        <li key={item.key} data-tone={item.tone}>
          {item.tone === "bad" ? <IconCircleX size={15} aria-hidden /> : <IconAlertTriangle size={15} aria-hidden />}
          <div>
            <Link to={item.to}>{t(`attention.${item.kind}`, { name: item.name })}</Link>
            {item.detail ? (
              <span className="dim">
                {" "}
                {item.parts ? <Reason text={item.detail} parts={item.parts} /> : item.detail}
              </span>
            ) : null}
          </div>
          {item.at ? <Ago at={item.at} /> : <span />}
        </li>
      ))}
      {items.length > MAX_ATTENTION ? (
        <li>
          <span />
          <span className="dim">{t("overview.moreAttention", { count: items.length - MAX_ATTENTION })}</span>
        </li>
      ) : null}
    </ul>
  );
}

function RunningTable({ items }: { items: Experiment[] }) {
  const { t } = useTranslation();
  const now = useNow();
  const eta = (item: Experiment): string => {
    const ran = elapsedS(item.started_at, null, now);
    if (shownState(item) === "WAITING" || ran === null || !item.progress || item.progress < 0.02 || item.progress >= 1)
      return format.MISSING;
    return `≈ ${format.duration((ran / item.progress) * (1 - item.progress))}`;
  };
  return (
    <DataTable
      rows={items}
      rowKey={(item) => item.id}
      label={t("overview.running")}
      testId="running"
      columns={[
        { id: "name", header: t("experiments.name"), lead: true, cell: (item) => <ExperimentLink item={item} /> },
        { id: "state", header: t("experiments.state"), cell: (item) => <StateBadge state={shownState(item)} plain /> },
        {
          id: "progress",
          header: t("experiments.progress"),
          width: 190,
          cell: (item) => <Meter value={item.progress} label={t("experiments.progress")} />,
        },
        {
          id: "trials",
          header: t("experiments.trials"),
          phone: false,
          width: 120,
          cell: (item) =>
            item.only_trial_id ? (
              "1"
            ) : (
              <TrialsBar byState={item.num_trials_by_state} planned={item.num_trials_planned} />
            ),
        },
        { id: "metric", header: t("experiments.metric"), cell: (item) => <Headline item={item} /> },
        {
          id: "slots",
          header: t("experiments.slots"),
          phone: false,
          align: "right",
          cell: (item) => slotsText(t, item),
        },
        {
          id: "for",
          header: t("experiments.elapsed"),
          align: "right",
          cell: (item) => <Elapsed start={item.started_at} end={item.ended_at} />,
        },
        { id: "eta", header: t("experiments.eta"), align: "right", cell: eta },
      ]}
    />
  );
}

function RecentTable({ items }: { items: Experiment[] }) {
  const { t } = useTranslation();
  return (
    <DataTable
      rows={items}
      rowKey={(item) => item.id}
      label={t("overview.recent")}
      columns={[
        { id: "name", header: t("experiments.name"), lead: true, cell: (item) => <ExperimentLink item={item} /> },
        { id: "state", header: t("experiments.state"), cell: (item) => <StateBadge state={item.state} plain /> },
        { id: "metric", header: t("experiments.metric"), cell: (item) => <Headline item={item} /> },
        {
          id: "for",
          header: t("experiments.elapsed"),
          align: "right",
          cell: (item) => <Elapsed start={item.started_at} end={item.ended_at} />,
        },
        { id: "at", header: t("experiments.ended"), align: "right", cell: (item) => <Ago at={item.ended_at} /> },
      ]}
    />
  );
}
