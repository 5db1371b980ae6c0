import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { type TrialDetail, trialWorkers, type Worker } from "../../api/queries";
import chartCss from "../../charts/chart.module.css";
import { SeriesChart } from "../../charts/SeriesChart";
import type { SeriesStore } from "../../charts/SeriesStore";
import { StackedSteps } from "../../charts/StackedSteps";
import { type Column, DataTable } from "../../components/DataTable";
import { Empty, Notice, Section } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import * as format from "../../lib/format";
import { diagnose, type Diagnosis as DiagnosisResult, STEP_PARTS, stepParts } from "../../lib/perf";
import { recentMean } from "../../lib/series";
import { trialSource } from "./Metrics";
import css from "./trials.module.css";
import { useSeriesStore } from "./useSeriesStore";

/** Buckets that a diagnosis looks at. */
const WINDOW = 10;

const COLORS: Record<string, string> = {
  "time/data_wait_ms": "var(--series-1)",
  "time/forward_ms": "var(--part-forward)",
  "time/backward_ms": "var(--series-0)",
  "comm/exposed_ms": "var(--series-2)",
  "time/optimizer_ms": "var(--series-5)",
  "time/checkpoint_ms": "var(--series-3)",
  "time/other_ms": "var(--series-4)",
};

export function Performance({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const bars = useSeriesStore(trial.id, 48, false);
  const curves = useSeriesStore(trial.id);
  useEffect(() => {
    const releases = [
      ...STEP_PARTS.map((name) => bars.want(name)),
      ...["comm/overhead_ratio", "throughput/samples_per_s"].map((name) => curves.want(name)),
    ];
    return () => {
      for (const release of releases) release();
      bars.dispose();
      curves.dispose();
    };
  }, [bars, curves]);
  const workers = useQuery(trialWorkers(trial.id));
  const comm = useMemo(() => trialSource(curves, ["comm/overhead_ratio"], false), [curves]);
  const throughput = useMemo(() => trialSource(curves, ["throughput/samples_per_s"], false), [curves]);
  const hasParts = "time/step_ms" in trial.summary;
  if (!hasParts) {
    return <Empty title={t("perf.none")}>{t("perf.noneHint")}</Empty>;
  }
  return (
    <>
      <Diagnosis store={bars} />
      <Section title={t("perf.breakdown")} note={t("perf.breakdownNote")}>
        <StackedSteps store={bars} title={t("perf.stepTime")} />
      </Section>
      <Section title={t("perf.cost")}>
        <div className={chartCss["grid"]}>
          <SeriesChart id="comm-share" title={t("perf.commShare")} metric="comm/overhead_ratio" source={comm} syncKey="perf" />
          <SeriesChart id="throughput" title={t("perf.throughput")} metric="throughput/samples_per_s" source={throughput} syncKey="perf" />
        </div>
      </Section>
      <Section title={t("perf.ranks")} note={t("perf.ranksNote")}>
        <QueryView query={workers}>{(data) => <RankTable workers={data.items} />}</QueryView>
      </Section>
    </>
  );
}

/** Over the last buckets, not the last step: single steps jump. */
function Diagnosis({ store }: { store: SeriesStore }) {
  const { t } = useTranslation();
  const [result, setResult] = useState<DiagnosisResult | null>(null);
  useEffect(() => {
    const read = (): void => {
      const next = diagnose(Object.fromEntries(STEP_PARTS.map((part) => [part, recentMean(store.get(part)[0], WINDOW)])));
      setResult((before) => (JSON.stringify(before) === JSON.stringify(next) ? before : next));
    };
    read();
    return store.subscribe(read);
  }, [store]);
  if (!result || result.kind === "unknown") return null;
  return (
    <div data-testid="diagnosis">
      <Notice tone={result.kind === "compute" ? "ok" : "warn"} title={t(`perf.diagnosis.${result.kind}`, { share: format.pct(result.share) })}>
        {result.kind === "comm" ? t("perf.advice.comm", { k: result.accumulate ?? 2 }) : t(`perf.advice.${result.kind}`)}
      </Notice>
    </div>
  );
}

function RankTable({ workers }: { workers: Worker[] }) {
  const { t } = useTranslation();
  if (workers.length === 0) return <Empty title={t("ranks.none")} />;
  const step = (worker: Worker) => format.fromWire(worker.latest["time/step_ms"]);
  const slowest = Math.max(...workers.map((w) => step(w) ?? 0));
  const compute = (w: Worker): number => {
    const parts = stepParts(w.latest);
    return parts["time/forward_ms"] + parts["time/backward_ms"] + parts["time/data_wait_ms"];
  };
  const works = workers.map(compute);
  const most = Math.max(...works);
  const median = works.toSorted((a, b) => a - b)[Math.floor(works.length / 2)] ?? 0;
  const columns: Column<Worker>[] = [
    { id: "rank", header: t("ranks.rank"), lead: true, cell: (w) => <b>{t("rank.no", { rank: w.rank })}</b> },
    { id: "node", header: t("ranks.node"), cell: (w) => w.node_name },
    { id: "step", header: t("perf.step"), align: "right", cell: (w) => format.ms(step(w)) },
    {
      id: "parts",
      header: t("perf.parts"),
      cell: (w) => {
        const parts = stepParts(w.latest);
        const text = STEP_PARTS.map((part) => `${t(`part.${part}`)} ${format.ms(parts[part])}`).join(", ");
        return (
          <span className={css["partbar"]} role="img" aria-label={text} title={text}>
            {STEP_PARTS.map((part) => (
              <span key={part} style={{ width: `${slowest > 0 ? (parts[part] / slowest) * 100 : 0}%`, background: COLORS[part] }} />
            ))}
          </span>
        );
      },
    },
    ...STEP_PARTS.filter((part) => part !== "time/other_ms").map(
      (part): Column<Worker> => ({ id: part, header: t(`part.${part}`), align: "right", cell: (w) => format.ms(stepParts(w.latest)[part]) }),
    ),
    { id: "share", header: t("perf.share"), align: "right", cell: (w) => format.pct(w.latest["comm/overhead_ratio"]) },
    { id: "bytes", header: t("perf.bytes"), align: "right", cell: (w) => format.bytes(w.latest["comm/bytes"]) },
    {
      id: "note",
      header: t("perf.note"),
      cell: (w) => (workers.length > 1 && most > 0 && compute(w) === most && most > median * 1.15 ? <b style={{ color: "var(--warn)" }}>{t("perf.slowest")}</b> : ""),
    },
  ];
  return <DataTable rows={workers} columns={columns} rowKey={(w) => w.rank} label={t("perf.ranks")} testId="perf-ranks" />;
}
