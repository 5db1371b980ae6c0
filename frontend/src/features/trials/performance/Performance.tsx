import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { type TrialDetail, trialPerformance, type TrialPerformance, trialWorkers } from "../../../api/queries";
import chartCss from "../../../charts/chart.module.css";
import { SeriesChart } from "../../../charts/series/SeriesChart";
import type { SeriesStore } from "../../../charts/series/SeriesStore";
import { StackedSteps } from "../../../charts/series/StackedSteps";
import { Empty, Notice, Section } from "../../../components/basics";
import { LinkButton } from "../../../components/LinkButton";
import { QueryView } from "../../../components/QueryView";
import { Reason } from "../../../components/text/Message";
import * as format from "../../../lib/format";
import { STEP_PARTS } from "../../../lib/series/perf";
import { isTerminal } from "../../../lib/states";
import { trialSource } from "../Metrics";
import { Foreseen } from "./Foreseen";
import { PipelineFigure } from "./PipelineFigure";
import { Profiles } from "./Profiles";
import { MemoryTable, RankTable, StageTable, TrafficTable } from "./PerformanceTables";
import { Staleness } from "./Staleness";
import { isIdle } from "../../../common/series/idle";
import { useSeriesStore } from "../../../common/series/useSeriesStore";
import layout from "../../../components/layout.module.css";

const COSTS = [
  { id: "comm-share", metric: "comm/overhead_ratio", title: "perf.commShare" },
  { id: "throughput", metric: "throughput/samples_per_s", title: "perf.throughput" },
  { id: "mfu", metric: "throughput/mfu", title: "perf.mfu" },
] as const;
const CURVES: string[] = COSTS.map(({ metric }) => metric);

/** Load the steps of one rank and the cost curves while the component is mounted. */
function useStores(trial: TrialDetail, rank: number) {
  const bars = useSeriesStore(trial.id, 48, false);
  const curves = useSeriesStore(trial.id);
  const measured = CURVES.filter((name) => name in trial.summary).join(" ");
  useEffect(() => {
    const names = measured.split(" ").filter(Boolean);
    const releases = [...STEP_PARTS.map((name) => bars.want(name)), ...names.map((name) => curves.want(name))];
    return () => {
      for (const release of releases) release();
      bars.dispose();
      curves.dispose();
    };
  }, [bars, curves, measured]);
  useEffect(() => bars.configure({}, [rank]), [bars, rank]);
  return { bars, curves, measured };
}

export function Performance({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const [rank, setRank] = useState("0");
  const { bars, curves, measured: costs } = useStores(trial, Number(rank));
  const workers = useQuery(trialWorkers(trial.id));
  const measured = useQuery(trialPerformance(trial.id, !isTerminal(trial.state)));
  const hasParts = "time/step_ms" in trial.summary;
  const actions = <Actions trial={trial} />;
  if (!hasParts) {
    return (
      <>
        <Empty title={t("perf.none")} action={actions}>
          {t("perf.noneHint")}
        </Empty>
        <Profiles trial={trial} />
      </>
    );
  }
  const ranks = measured.data?.ranks ?? [];
  const drawn = costs.split(" ").filter((name) => name && !isIdle(trial.summary, name, ranks.length));
  return (
    <>
      <div className={layout["belowXl"]}>{actions}</div>
      {measured.data?.bottleneck ? <Verdict bound={measured.data.bottleneck} /> : null}
      {measured.data?.culprit && measured.data.bottleneck?.kind !== "waiting" ? (
        <Culprit culprit={measured.data.culprit} />
      ) : null}
      <Section
        title={t("perf.breakdown")}
        note={
          ranks.length > 1 ? (
            <Select
              aria-label={t("perf.rank")}
              size="xs"
              w={110}
              allowDeselect={false}
              value={rank}
              onChange={(value) => setRank(value ?? "0")}
              data={ranks.map((r) => ({ value: String(r.rank), label: t("rank.no", { rank: r.rank }) }))}
            />
          ) : (
            t("perf.breakdownNote")
          )
        }
      >
        <StackedSteps store={bars} title={t("perf.stepTime")} />
      </Section>
      {drawn.length > 0 ? (
        <Section title={t("perf.cost")}>
          <CostCharts curves={curves} measured={drawn} />
        </Section>
      ) : null}
      <QueryView query={measured}>
        {(data) => (
          <Measured
            trial={trial}
            data={data}
            nodes={new Map((workers.data?.items ?? []).map((w) => [w.rank, w.node_name]))}
          />
        )}
      </QueryView>
      <Staleness trial={trial} />
      <Section guide="concepts/measuring#throughput-and-memory" title={t("perf.memory")} note={t("perf.memoryNote")}>
        <QueryView query={workers}>{(data) => <MemoryTable workers={data.items} />}</QueryView>
      </Section>
      <Foreseen trial={trial} />
      <Profiles trial={trial} />
    </>
  );
}

/** What training costs: communication, throughput, and MFU, of which each is drawn where it is measured. */
function CostCharts({ curves, measured }: { curves: SeriesStore; measured: string[] }) {
  const { t } = useTranslation();
  const sources = useMemo(() => new Map(CURVES.map((name) => [name, trialSource(curves, [name], false)])), [curves]);
  return (
    <div className={chartCss["grid"]}>
      {COSTS.map(({ id, metric, title }) => {
        const source = sources.get(metric);
        return source && measured.includes(metric) ? (
          <SeriesChart key={id} id={id} title={t(title)} metric={metric} source={source} syncKey="perf" />
        ) : null;
      })}
    </div>
  );
}

/** Links to the diagnosis and to the scaling report. */
function Actions({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  return (
    <span className={layout["inline"]}>
      <LinkButton
        to="/trials/$trialId/diagnosis"
        params={{ trialId: String(trial.id) }}
        variant="default"
        size="xs"
        data-testid="diagnose"
      >
        {t("diagnosis.run")}
      </LinkButton>
      <LinkButton
        to="/experiments/$experimentId/scaling"
        params={{ experimentId: String(trial.experiment_id) }}
        variant="default"
        size="xs"
        data-testid="scaling"
      >
        {t("scaling.look")}
      </LinkButton>
    </span>
  );
}

function Measured({ trial, data, nodes }: { trial: TrialDetail; data: TrialPerformance; nodes: Map<number, string> }) {
  const { t } = useTranslation();
  return (
    <>
      <Section
        title={t("perf.ranks")}
        note={
          data.first_step === null
            ? null
            : t("perf.ranksNote", { first: format.count(data.first_step), last: format.count(data.last_step) })
        }
      >
        {data.source === null ? null : (
          <p className="dim" data-testid="source">
            <Reason text={data.source} parts={data.source_parts} />
          </p>
        )}
        {data.foreign.length > 0 ? (
          <Notice tone="warn" title={t("perf.foreign")}>
            {data.foreign.join(" · ")}
          </Notice>
        ) : null}
        <RankTable ranks={data.ranks} nodes={nodes} />
        {data.ranks.length < data.num_ranks ? (
          <p className="dim">{t("perf.someRanks", { shown: data.ranks.length, all: data.num_ranks })}</p>
        ) : null}
      </Section>
      {data.stages.length > 0 ? (
        <Section
          title={t("perf.stages")}
          note={data.imbalance === null ? null : t("perf.stagesNote", { share: format.pct(data.imbalance) })}
        >
          <PipelineFigure trial={trial} data={data} />
          <StageTable stages={data.stages} />
        </Section>
      ) : null}
      <Section
        guide="concepts/measuring#by-process-group-and-kind"
        title={t("perf.traffic")}
        note={t(data.source === null ? "perf.trafficNote" : "perf.trafficTimelineNote")}
      >
        <TrafficTable traffic={data.traffic} perStep={data.bucket_steps === 1} />
      </Section>
    </>
  );
}

/** Of what is no cost. */
const TONES: Partial<Record<NonNullable<TrialPerformance["bottleneck"]>["kind"], "ok" | "run">> = {
  computation: "ok",
  no_single_cost: "run",
  too_early: "run",
};

/** What the step is bound by, over the rows that the tables below show. */
function Verdict({ bound }: { bound: NonNullable<TrialPerformance["bottleneck"]> }) {
  const { t } = useTranslation();
  return (
    <div data-testid="bottleneck" data-kind={bound.kind}>
      <Notice tone={TONES[bound.kind] ?? "warn"} title={<Reason text={bound.headline} parts={bound.headline_parts} />}>
        <Reason text={bound.reason} parts={bound.reason_parts} /> {t("perf.ofRows", { count: bound.num_rows })}
      </Notice>
    </div>
  );
}

function Culprit({ culprit }: { culprit: NonNullable<TrialPerformance["culprit"]> }) {
  const { t } = useTranslation();
  return (
    <div data-testid="culprit">
      <Notice tone="warn" title={t("perf.culprit", { rank: culprit.rank, share: format.pct(culprit.share) })}>
        <Reason text={culprit.reason} parts={culprit.reason_parts} />
      </Notice>
    </div>
  );
}
