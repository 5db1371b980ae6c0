import { useQueries } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import { trialPerformance } from "../../api/queries";
import { readPalette } from "../../charts/palette";
import { Empty, Section } from "../../components/basics";
import * as format from "../../lib/format";
import { LEAST_SHARE, STEP_PARTS } from "../../lib/series/perf";
import { isTerminal } from "../../lib/states";
import css from "./compare.module.css";
import { Delta } from "./CompareTables";
import { valueOf } from "./compareData";
import { Matrix, type MatrixRow, useTrialColumns } from "./Matrix";
import type { Compared } from "./TrialChips";

const COST = [
  "throughput/samples_per_s",
  "throughput/tokens_per_s",
  "throughput/mfu",
  "time/step_ms",
  "comm/overhead_ratio",
  "comm/exposed_ms",
  "comm/overlapped_ms",
  "comm/bytes",
  "comm/count",
  "pipeline/bubble_ms",
] as const;
const MEMORY = [
  "memory/rss_bytes",
  "memory/rss_peak_bytes",
  "memory/allocated_bytes",
  "memory/peak_bytes",
  "memory/reserved_bytes",
] as const;
const MORE_IS_BETTER: readonly string[] = COST.slice(0, 3);

interface Measured extends Compared {
  figures: Record<string, number>;
  /** How many rows of each rank the figures are over. */
  rows: number;
}

/** Where the step time of each trial goes, and what communication and memory it costs. */
export function ComparePerformance(props: { compared: Compared[]; base: number }) {
  const { t } = useTranslation();
  const { base } = props;
  const queries = useQueries({
    queries: props.compared.map(({ id, trial }) => trialPerformance(id, !isTerminal(trial.state))),
  });
  const compared = props.compared.map((one, i): Measured => {
    const { figures, num_rows: rows } = queries[i]?.data ?? { figures: {}, num_rows: 0 };
    return { ...one, figures, rows };
  });
  const timed = compared.filter(({ trial }) => "time/step_ms" in trial.summary);
  if (timed.length === 0) return <Empty title={t("perf.none")}>{t("perf.noneHint")}</Empty>;
  return (
    <>
      <Section title={t("perf.breakdown")} note={t("compare.perfNote")}>
        <PartBars compared={timed} />
        <Numbers
          compared={compared}
          base={base}
          names={STEP_PARTS}
          label={(name) => t(`part.${name}`)}
          testId="parts"
        />
      </Section>
      <Section title={t("perf.cost")}>
        <Numbers compared={compared} base={base} names={COST} testId="cost" />
      </Section>
      <Section title={t("perf.memory")} note={t("compare.memoryNote")}>
        <Numbers compared={compared} base={base} names={MEMORY} testId="memory" />
      </Section>
    </>
  );
}

/** How many values stand behind the one that is shown. */
function countText(t: TFunction, { figures, rows, trial }: Measured, name: string): string | undefined {
  if (name in figures) return t("compare.recent", { count: rows });
  const entry = trial.summary[name];
  return entry && t("compare.over", { count: entry.count, step: format.count(entry.step) });
}

/** The steps as bars in their parts, all on one scale. */
function PartBars({ compared }: { compared: Measured[] }) {
  const { t } = useTranslation();
  const { parts: colors } = readPalette();
  const rows = compared.map(({ id, name, figures }) => {
    const whole = figures["time/step_ms"] ?? 0;
    const parts = STEP_PARTS.map((part) => ({ part, ms: Math.max(0, figures[part] ?? 0) })).filter(
      ({ ms }) => ms > whole * LEAST_SHARE,
    );
    return { id, name, whole, parts };
  });
  const slowest = Math.max(...rows.map((row) => row.whole), 1e-9);
  const shown = STEP_PARTS.filter((part) => rows.some((row) => row.parts.some((one) => one.part === part)));
  return (
    <>
      <div className={css["partKeys"]}>
        {shown.map((part) => (
          <span key={part}>
            <i style={{ background: colors[part] }} aria-hidden />
            {t(`part.${part}`)}
          </span>
        ))}
      </div>
      <ul className={css["partRows"]} data-testid="part-bars">
        {rows.map(({ id, name, whole, parts }) => {
          const text = parts.map(({ part, ms }) => `${t(`part.${part}`)} ${format.ms(ms)}`).join(", ");
          return (
            <li key={id}>
              <span title={name}>{name}</span>
              <span className={css["partBar"]} role="img" aria-label={`${name}: ${text}`} title={text}>
                {parts.map(({ part, ms }) => (
                  <span key={part} style={{ width: `${(ms / slowest) * 100}%`, background: colors[part] }} />
                ))}
              </span>
              <b className="num">{format.ms(whole)}</b>
            </li>
          );
        })}
      </ul>
    </>
  );
}

function Numbers<Name extends string>({
  compared,
  base,
  names,
  label,
  testId,
}: {
  compared: Measured[];
  base: number;
  names: readonly Name[];
  /** What a metric is called; without it by its name. */
  label?: (name: Name) => string;
  testId: string;
}) {
  const { t } = useTranslation();
  const columns = useTrialColumns(compared, base);
  const there = names.filter((name) =>
    compared.some(({ figures, trial }) => valueOf(figures, trial.summary, name) !== null),
  );
  if (there.length === 0) return <p className="dim">{t("compare.noMetrics")}</p>;
  const rowOf = (name: Name): MatrixRow => {
    const values = compared.map(({ figures, trial }) => valueOf(figures, trial.summary, name));
    const own = values[compared.findIndex((one) => one.id === base)] ?? null;
    const goal = MORE_IS_BETTER.includes(name) ? "max" : "min";
    const cells = compared.map((one, i) => ({
      content: (
        <>
          {format.metric(name, values[i])}
          {one.id === base ? null : <Delta name={name} value={values[i] ?? null} base={own} goal={goal} />}
        </>
      ),
      title: countText(t, one, name),
    }));
    return { key: name, label: label?.(name), cells };
  };
  return (
    <Matrix first={t("compare.metric")} columns={columns} rows={there.map(rowOf)} isNumeric testId={`perf-${testId}`} />
  );
}
