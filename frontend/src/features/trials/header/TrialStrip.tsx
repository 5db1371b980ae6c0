import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { TFunction } from "i18next";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { type TrialDetail, trialLogErrors, trialMetrics, trialPerformance } from "../../../api/queries";
import type { TrialSearch } from "../../../app/search";
import * as format from "../../../lib/format";
import { isTerminal } from "../../../lib/states";
import { etaS } from "./eta";
import { StepBar } from "./StepBar";
import { StripHelp } from "./StripHelp";
import { bestOf, isMeasured, type Measured, shareOf } from "./figures";
import css from "../trials.module.css";

interface Figure {
  id: string;
  label: string;
  value: ReactNode;
  /** What the value is over, with its unit: the tooltip. */
  title?: string;
  tone?: "warn" | "bad";
  /** Also beside a log, which wants the room. */
  isVital?: boolean;
  /** What is drawn behind the value. */
  beside?: ReactNode;
  /** What of the page says more. */
  leadsTo?: Pick<TrialSearch, "tab" | "level">;
}

const WARN_COMM = 0.3;
const WARN_DATA = 0.2;

/** How a trial is doing, in one line: progress, time left, losses, speed and where the step time goes. */
export function TrialStrip({ trial, isShort }: { trial: TrialDetail; isShort: boolean }) {
  const { t } = useTranslation();
  const losses = useLosses(trial);
  const errors = useErrors(trial);
  const measured = useMeasured(trial);
  const figures = [
    progress(t, trial),
    timeLeft(t, trial, measured),
    failedRows(t, trial),
    ...losses,
    ...speed(t, trial, measured),
    restarts(t, trial),
    errors,
  ];
  const shown = figures.filter((figure) => figure.value !== format.MISSING && (figure.isVital || !isShort));
  const ratio = trial.num_steps_planned ? trial.step / trial.num_steps_planned : null;
  return (
    <div className={css["strip"]} data-testid="trial-strip">
      <dl>
        {ratio === null ? null : <ProgressBar ratio={ratio} isOver={isTerminal(trial.state)} />}
        {shown.map((figure) => (
          <FigureItem key={figure.id} figure={figure} />
        ))}
      </dl>
      <StripHelp items={shown.flatMap(({ label, title }) => (title ? [{ label, title }] : []))} />
    </div>
  );
}

function FigureItem({ figure }: { figure: Figure }) {
  const { id, label, value, title, tone, isVital, leadsTo, beside } = figure;
  return (
    <div title={title} data-testid={`stat-${id}`} data-tone={tone} data-vital={isVital ?? false}>
      <dt>{label}</dt>
      <dd>
        {leadsTo ? (
          <Link to="." search={leadsTo as never} data-testid={`stat-${id}-link`}>
            {value}
          </Link>
        ) : (
          value
        )}
        {beside}
      </dd>
    </div>
  );
}

function ProgressBar({ ratio, isOver }: { ratio: number; isOver: boolean }) {
  const { t } = useTranslation();
  return (
    <div className={css["stripBar"]}>
      <dt className={"srOnly"}>{t("experiments.progress")}</dt>
      <dd>
        <span className={css["stripTrack"]} data-over={isOver || undefined}>
          <span style={{ width: `${Math.min(1, ratio) * 100}%` }} />
        </span>
        {format.pct(ratio)}
      </dd>
    </div>
  );
}

function progress(t: TFunction, trial: TrialDetail): Figure {
  const { num_steps_planned: planned, prediction } = trial;
  if (prediction) {
    return {
      id: "rows",
      label: t("trial.stat.rows"),
      value: `${format.count(prediction.rows_done)} / ${format.count(prediction.num_rows)}`,
      title: t("trial.stat.shards", {
        done: format.count(prediction.num_done),
        all: format.count(prediction.num_shards),
      }),
      isVital: true,
    };
  }
  return {
    id: "step",
    label: t("trial.stat.step"),
    value: planned ? `${format.count(trial.step)} / ${format.count(planned)}` : format.count(trial.step),
    title: trial.epoch === null ? undefined : t("trial.stat.epoch", { epoch: format.num(trial.epoch, 3) }),
    isVital: true,
  };
}

/** How many rows of a batch inference could not be predicted; the outputs name them. */
function failedRows(t: TFunction, trial: TrialDetail): Figure {
  const count = trial.prediction?.num_errors ?? 0;
  return {
    id: "failed-rows",
    label: t("trial.stat.failedRows"),
    value: count > 0 ? format.count(count) : format.MISSING,
    title: t("trial.stat.failedRowsTitle"),
    tone: "bad",
    isVital: true,
    leadsTo: { tab: "outputs" },
  };
}

/** The metric that stands for the trial in lists, too, and a loss beside it. */
function useLosses(trial: TrialDetail): Figure[] {
  const { t } = useTranslation();
  // The latest values of rank 0 come with the summary; lists carry summaries only.
  const metrics = useQuery(trialMetrics(trial.id)).data?.items ?? [];
  const { summary } = trial;
  const first = trial.headline;
  const beside = ["train/loss", "val/loss"].find((name) => name !== first && name in summary);
  return [first, beside].flatMap((name) => {
    const entry = name ? summary[name] : undefined;
    if (!name || !entry) return [];
    const bad = metrics.reduce((sum, item) => sum + (item.name === name ? item.num_non_finite : 0), 0);
    const isFirst = name === first;
    const value = format.num(entry.last);
    return [
      {
        id: isFirst ? "headline" : "loss",
        label: name,
        value: bad > 0 ? `${value} · ${t("trial.stat.nonFinite", { count: bad })}` : value,
        title: t("trial.stat.lossTitle", {
          step: format.count(entry.step),
          best: format.num(bestOf(name, entry, trial)),
          count: entry.count,
        }),
        tone: bad > 0 ? ("bad" as const) : undefined,
        isVital: isFirst,
      },
    ];
  });
}

/** How many lines of its log are errors, which is one click from them. */
function useErrors(trial: TrialDetail): Figure {
  const { t } = useTranslation();
  const isOver = isTerminal(trial.state);
  const count = useQuery(trialLogErrors(trial.id, isOver)).data ?? 0;
  return {
    id: "errors",
    label: t("trial.stat.errors"),
    value: count > 0 ? format.count(count) : format.MISSING,
    title: t("trial.stat.errorsTitle"),
    tone: "bad",
    isVital: true,
    leadsTo: { tab: "logs", level: "error,critical" },
  };
}

/** The figures of its newest rows, as the verdict and the tables of its performance have them. */
function useMeasured(trial: TrialDetail): Measured {
  const query = { ...trialPerformance(trial.id, !isTerminal(trial.state)), enabled: isMeasured(trial.summary) };
  return useQuery(query).data ?? { figures: {}, num_rows: 0 };
}

const RATES = { samples: "samples", rows: "rowsPerS", tokens: "tokens" } as const;

function speed(t: TFunction, trial: TrialDetail, { figures, num_rows: rows }: Measured): Figure[] {
  const kind = (["samples", "rows", "tokens"] as const).find((what) => `throughput/${what}_per_s` in figures);
  const step = figures["time/step_ms"];
  const comm = figures["comm/overhead_ratio"];
  const wait = shareOf(figures, "time/data_wait_ms");
  const over = (words = ""): string => [words, t("trial.stat.mean", { count: rows })].filter(Boolean).join(" · ");
  const fastest = trial.summary["time/step_ms"]?.min;
  return [
    {
      id: "throughput",
      label: t("trial.stat.throughput"),
      value:
        kind === undefined
          ? format.MISSING
          : `${format.si(figures[`throughput/${kind}_per_s`], "", 4)} ${t(`trial.stat.${RATES[kind]}`)}`,
      title: over(),
    },
    {
      id: "comm",
      label: t("trial.stat.comm"),
      value: format.pct(comm),
      title: over(t("trial.stat.commOf")),
      tone: comm !== undefined && comm >= WARN_COMM ? "warn" : undefined,
    },
    {
      id: "data",
      label: t("trial.stat.data"),
      // The bar of the step shows it, too; said in words when it is too much.
      value: wait !== null && wait >= WARN_DATA ? format.pct(wait) : format.MISSING,
      title: over(t("trial.stat.ofStep")),
      tone: "warn",
    },
    {
      id: "step-time",
      label: t("trial.stat.stepTime"),
      value: format.ms(step),
      beside: step === undefined ? null : <StepBar figures={figures} />,
      title: over(fastest === undefined ? "" : t("trial.stat.least", { value: format.ms(fastest) })),
    },
  ];
}

function timeLeft(t: TFunction, trial: TrialDetail, { figures }: Measured): Figure {
  const eta = etaS(trial, figures["time/step_ms"] ?? null);
  return {
    id: "eta",
    label: t("experiments.eta"),
    value: eta === null ? format.MISSING : `≈ ${format.duration(eta)}`,
    title: t("trial.stat.etaTitle"),
    isVital: true,
  };
}

function restarts(t: TFunction, trial: TrialDetail): Figure {
  return {
    id: "restarts",
    label: t("trial.stat.restarts"),
    value: trial.num_restarts > 0 ? format.count(trial.num_restarts) : format.MISSING,
    title: t("trial.stat.attempt", { no: trial.attempt_no }),
  };
}
