/** What a chart of series says in words: its legend, the line below it, and the description for who does not see it. */
import type { TFunction } from "i18next";

import { outside, type XKind } from "../../lib/series/axis";
import * as format from "../../lib/format";
import { type Columns, gapsOf, nonFinite, stepsOf } from "../../lib/series/series";
import { pointAt } from "./legend";
import { fillLegend } from "./legendKeys";
import type { Laid, Line } from "./lines";
import { lineStyle, type Palette } from "../palette";
import { xText } from "./plotOptions";

type Zone = Parameters<typeof xText>[2];

const MAX_KEYS = 6;
const MAX_NAMED = 2;
/** Longer names are those of runs, in the order of the legend: repeated here, they would take lines of their own. */
const MAX_NAME_CHARS = 16;

/** What is drawn, and how its axes are read. */
export interface Shown {
  /** Those that are drawn. */
  lines: Line[];
  /** These and those that were hidden. */
  all: Line[];
  /** Keys of the hidden ones. */
  hidden: ReadonlySet<string>;
  laid: Laid | null;
  metric: string;
  x: XKind;
  xName: string;
  zone: Zone;
  t: TFunction;
}

/** Write the keys of the lines with their values at a place of the axis; null: with their latest. Beside it their best. */
export function writeLegend(element: HTMLElement, shown: Shown, at: number | null, palette: Palette): void {
  const { lines, all, hidden, laid, metric, x, xName, zone, t } = shown;
  const keys = all.slice(0, MAX_KEYS).map((line) => {
    const isHidden = hidden.has(line.key);
    const i = lines.indexOf(line);
    const style = lineStyle(line.color, palette);
    const { text, isPast } = isHidden ? { text: "", isPast: false } : valueText(shown, line, laid?.xs[i], at);
    // While the cursor moves its place needs the room: another line of words would move the chart below it.
    const bestText = at !== null || isHidden || laid?.best[i] == null ? "" : format.metric(metric, laid.best[i]);
    return {
      key: line.key,
      label: line.label,
      color: style.stroke,
      isDashed: style.dash !== undefined,
      value: text,
      isPast,
      best: bestText === "" || bestText === text ? "" : t("chart.best", { value: bestText }),
      isHidden,
      hint: all.length > 1 ? t(isHidden ? "chart.showLine" : "chart.hideLine") : null,
    };
  });
  const rest = all.length > MAX_KEYS ? t("chart.moreLines", { n: all.length - MAX_KEYS }) : "";
  const place = at === null ? "" : `${xName} ${xText(x, at, zone)}`;
  fillLegend(element, keys, [rest, place].filter((part) => part !== "").join(" · "));
}

/** What the cursor points at, in words, for who moves it with the keyboard. */
export function spokenText(shown: Shown, at: number): string {
  const { lines, laid, x, xName, zone, t } = shown;
  const values = lines
    .slice(0, MAX_KEYS)
    .map((line, i) => `${line.label} ${valueText(shown, line, laid?.xs[i], at).text}`);
  return t("chart.at", { x: `${xName} ${xText(x, at, zone)}`, values: values.join(", ") });
}

/** The whole chart in one sentence. */
export function summaryText(shown: Shown, title: string): string {
  const { lines, metric, t } = shown;
  const main = lines[0];
  const values = main ? main.columns.mean.filter(Number.isFinite) : [];
  if (!main || values.length === 0) return title;
  return t("chart.summary", {
    title,
    points: format.count(main.columns.numPoints),
    first: format.metric(metric, values[0]),
    last: format.metric(metric, values.at(-1)),
    step: format.count(main.columns.step.at(-1)),
  });
}

/** The first value that is no number, if there is one, and how many there are where that is known. */
export function nonFiniteText({ lines, t }: Shown): string | null {
  const all = lines.flatMap((line) => nonFinite(line.columns));
  const first = all.toSorted((a, b) => a.step - b.step)[0];
  if (!first) return null;
  const text = t("chart.nonFinite", { kind: first.kind, step: format.count(first.step) });
  if (all.length === 1 || lines.some((line) => line.columns.bucketSteps > 1)) return text;
  const total = lines.reduce((sum, line) => sum + line.columns.step.length, 0);
  return t("chart.nonFiniteOf", { text, n: format.count(all.length), all: format.count(total) });
}

/** The value of a line at a place of the axis, or its latest; between its points the one before, with its place. */
function valueText(
  { x, metric, zone, t }: Shown,
  line: Line,
  own: Float64Array | undefined,
  at: number | null,
): { text: string; isPast: boolean } {
  const xs = own ?? line.columns.step;
  const found = pointAt(xs, line.columns.bucketSteps, at, x);
  // Where a line has begun but not ended it is between its points; behind its end it has nothing to say.
  const isBehind = found !== null && !found.isThere && found.index === xs.length - 1;
  if (found === null || isBehind) return { text: format.MISSING, isPast: false };
  const mean = format.metric(metric, line.columns.mean[found.index] as number);
  // Of several points or curves: of how many, where somebody looks.
  const isMean = at !== null && (line.band === true || line.columns.bucketSteps > 1);
  const value = isMean ? t("chart.meanOf", { value: mean, n: format.count(line.columns.count[found.index]) }) : mean;
  return found.isThere
    ? { text: value, isPast: false }
    : { text: `${value} (${xText(x, xs[found.index] ?? 0, zone)})`, isPast: true };
}

/** What stands below a chart: how many points or buckets, what the band is, what the axis leaves out, how it is smoothed. */
export function footText({ lines, laid, t }: Shown): string {
  if (lines.length === 0 || !laid) return "";
  const parts = [extentText(lines, t)];
  if (lines.some((line) => line.band)) parts.push(t("chart.band"));
  if (lines.some((line) => line.columns.downsampled)) parts.push(t("chart.downsampled"));
  const cut = laid.cut ? outside(laid.values, laid.cut) : 0;
  if (cut > 0) parts.push(t("chart.outside", { count: cut, n: format.count(cut) }));
  if (laid.smoothing > 0) parts.push(t("chart.smoothing", { factor: laid.smoothing }));
  return parts.join(" · ");
}

/** How much is drawn, and what of it is missing: points, or buckets of several steps. "" without lines. */
export function extentText(lines: readonly Line[], t: TFunction): string {
  const main = lines[0];
  if (!main) return "";
  const coarse = Math.max(...lines.map((line) => line.columns.bucketSteps), 1);
  if (coarse === 1) return pointsText(lines, t);
  const buckets = t(main.faint || main.band ? "chart.bucketsOnly" : "chart.buckets", {
    n: format.count(lines.reduce((sum, line) => sum + line.columns.numPoints, 0)),
    steps: format.count(coarse),
  });
  const gaps = lines.length === 1 && !main.band ? gapsOf(main.columns) : null;
  return gaps
    ? `${buckets} · ${t("chart.bucketGaps", { count: gaps.missing, n: format.count(gaps.missing), step: format.count(gaps.after) })}`
    : buckets;
}

/** "17 of 22 steps": what a curve in a rhythm leaves out. */
function gapsText(columns: Columns, t: TFunction): string | null {
  const gaps = gapsOf(columns);
  if (gaps === null) return null;
  const counts = {
    n: format.count(columns.step.length),
    all: format.count(columns.step.length + gaps.missing),
    step: format.count(gaps.after),
  };
  return gaps.every === 1
    ? t("chart.stepGaps", counts)
    : t("chart.valueGaps", { ...counts, every: format.count(gaps.every) });
}

/** "200 points", or of few lines each by name: "train 200 · val 64 points". */
function pointsText(lines: readonly Line[], t: TFunction): string {
  const main = lines[0]?.columns;
  const steps = main && lines.length === 1 ? stepsOf(main) : null;
  if (main && steps !== null && steps > main.numPoints)
    return t("chart.pointsOfSteps", { n: format.count(main.numPoints), all: format.count(steps) });
  const missing = main && lines.length === 1 && !lines[0]?.band ? gapsText(main, t) : null;
  if (missing !== null) return missing;
  const total = lines.reduce((sum, line) => sum + line.columns.numPoints, 0);
  const all = t("chart.points", { count: total, n: format.count(total) });
  if (lines.length === 1 || lines.length > MAX_NAMED) return all;
  const isShort = lines.every((line) => line.label.length <= MAX_NAME_CHARS);
  const each = lines.map(({ label, columns }) =>
    [...(isShort ? [label] : []), format.count(columns.numPoints)].join(" "),
  );
  return t("chart.pointsOf", { each: each.join(" · ") });
}
