import { useTranslation } from "react-i18next";

import { readPalette } from "../../charts/palette";
import { Empty, Section } from "../../components/basics";
import * as format from "../../lib/format";
import { LEAST_SHARE, STEP_PARTS } from "../../lib/perf";
import css from "./compare.module.css";
import { Delta, Heads } from "./CompareTables";
import { recentOf } from "./compareData";
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

/** Where the step time of each trial goes, and what communication and memory it costs. */
export function ComparePerformance({ compared, base }: { compared: Compared[]; base: number }) {
  const { t } = useTranslation();
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

/** The steps as bars in their parts, all on one scale. */
function PartBars({ compared }: { compared: Compared[] }) {
  const { t } = useTranslation();
  const { parts: colors } = readPalette();
  const rows = compared.map(({ id, name, trial }) => {
    const whole = recentOf(trial.summary, "time/step_ms") ?? 0;
    const parts = STEP_PARTS.map((part) => ({ part, ms: Math.max(0, recentOf(trial.summary, part) ?? 0) })).filter(
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
  label = (name) => name,
  testId,
}: {
  compared: Compared[];
  base: number;
  names: readonly Name[];
  label?: (name: Name) => string;
  testId: string;
}) {
  const { t } = useTranslation();
  const there = names.filter((name) => compared.some(({ trial }) => recentOf(trial.summary, name) !== null));
  if (there.length === 0) return <p className="dim">{t("compare.noMetrics")}</p>;
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["scroller"]} tabIndex={0}>
      <table className={css["matrix"]} data-testid={`perf-${testId}`}>
        <Heads compared={compared} first={t("compare.metric")} base={base} number />
        <tbody>
          {there.map((name) => {
            const values = compared.map(({ trial }) => recentOf(trial.summary, name));
            const own = values[compared.findIndex((one) => one.id === base)] ?? null;
            return (
              <tr key={name}>
                <th scope="row" title={name} data-words={label(name) !== name || undefined}>
                  {label(name)}
                </th>
                {values.map((value, i) => (
                  <td key={compared[i]?.id} data-number>
                    {format.metric(name, value)}
                    {compared[i]?.id === base ? null : (
                      <Delta
                        name={name}
                        value={value}
                        base={own}
                        goal={MORE_IS_BETTER.includes(name) ? "max" : "min"}
                      />
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
