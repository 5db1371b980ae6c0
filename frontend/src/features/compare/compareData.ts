/** What a comparison shows, worked out from trials. Pure. */
import type { TrialDetail } from "../../api/queries";
import { meanOver } from "../../lib/series/axis";
import { fromWire, num } from "../../lib/format";
import type { Columns } from "../../lib/series/series";
import { flatten as flattenAll, valueText } from "../../lib/settings";

export { valueText };

const HUES = 6;
const DASHED = 4;

/** As many as have a look of their own: six hues, four dashes. */
export const MAX_TRIALS = HUES * DASHED;
/** As many as can be looked at in groups, each as a mean with a band. */
export const MAX_GROUPED = 300;
/** What groups are made by when there are too many for lines of their own. */
export const FIRST_GROUP = "name";

/** "3,1,2" as ids, each once, those that are none left out; at most MAX_GROUPED. */
export function idsOf(text: string | undefined): number[] {
  const ids = (text ?? "")
    .split(",")
    .map(Number)
    .filter((id) => Number.isInteger(id) && id > 0);
  return [...new Set(ids)].slice(0, MAX_GROUPED);
}

/**
 * Place in the palette by id: hue `id % 6`, or the next one that is free, dashed when all six are
 * taken. Given in the order of ids, so that a later trial takes no earlier one's colour.
 */
export function colorsOf(ids: readonly number[]): Map<number, number> {
  const out = new Map<number, number>();
  const taken = new Set<number>();
  for (const id of ids.toSorted((a, b) => a - b)) {
    const base = out.size < MAX_TRIALS ? Math.floor(out.size / HUES) * HUES : 0;
    let hue = id % HUES;
    for (let tries = 0; tries < HUES && taken.has(base + hue); tries += 1) hue = (hue + 1) % HUES;
    taken.add(base + hue);
    out.set(id, base + hue);
  }
  return out;
}

/** Settings that say something, as paths: {a: {b: 1}} → a.b. Null and what is empty are left out. */
export function flatten(value: unknown): Map<string, unknown> {
  const isEmpty = (inner: unknown): boolean =>
    inner === null || inner === undefined || (typeof inner === "object" && Object.keys(inner).length === 0);
  return new Map([...flattenAll(value)].filter(([, inner]) => !isEmpty(inner)));
}

/** A trial's resolved document with the values of its hyperparameters, as paths. */
export const settingsOf = (trial: Pick<TrialDetail, "config" | "hparams">): Map<string, unknown> =>
  flatten({ ...trial.config, hyperparameters: trial.hparams });

export interface Difference {
  key: string;
  /** One per trial; undefined: it has no such key. */
  values: unknown[];
  differs: boolean;
}

/** Every key of any of them, sorted; hyperparameters first. */
export function differences(settings: readonly Map<string, unknown>[]): Difference[] {
  const keys = new Set(settings.flatMap((map) => [...map.keys()]));
  const order = (key: string): number => (key.startsWith("hyperparameters.") ? 0 : 1);
  return [...keys]
    .toSorted((a, b) => order(a) - order(b) || a.localeCompare(b))
    .map((key) => {
      const values = settings.map((map) => map.get(key));
      const first = JSON.stringify(values[0]);
      return { key, values, differs: values.some((value) => JSON.stringify(value) !== first) };
    });
}

export interface Group {
  label: string;
  ids: number[];
}

type Settled = { id: number; settings: Map<string, unknown> };

/** More groups than that are not told apart. Numbers with more values are put into RANGES ranges. */
const MAX_GROUPS = 8;
const RANGES = 4;

/**
 * Trials by the value of a key, in the order of their first member. Numbers with more than MAX_GROUPS values make ranges
 * of about as many trials each, from the lowest on, and trials without a number a group after them.
 */
export function groupBy(trials: readonly Settled[], key: string): Group[] {
  const name = key.slice(key.lastIndexOf(".") + 1);
  const ranges = rangesOf(trials.map(({ settings }) => settings.get(key)));
  const groups = new Map<string, number[]>(ranges.map(({ label }) => [label, []]));
  for (const { id, settings } of trials) {
    const value = settings.get(key);
    const range = isNumber(value) ? ranges.find(({ from, to }) => from <= value && value <= to) : undefined;
    const label = range?.label ?? ((ranges.length === 0 && valueText(value)) || "–");
    groups.set(label, [...(groups.get(label) ?? []), id]);
  }
  return [...groups].map(([label, ids]) => ({ label: `${name}=${label}`, ids }));
}

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

/** Ranges from quantile to quantile of the numbers among the values; none where there are few. */
function rangesOf(values: readonly unknown[]): { label: string; from: number; to: number }[] {
  const sorted = values.filter(isNumber).toSorted((a, b) => a - b);
  if (new Set(sorted).size <= MAX_GROUPS) return [];
  const quantile = (part: number): number => sorted[Math.floor((part * sorted.length) / RANGES)] ?? 0;
  const starts = [...new Set(Array.from({ length: RANGES }, (_, part) => quantile(part)))];
  return starts.map((from, i) => {
    const end = starts[i + 1] ?? Number.POSITIVE_INFINITY;
    const to = sorted.findLast((one) => one < end) ?? from;
    return { label: from === to ? num(from, 3) : `${num(from, 3)}…${num(to, 3)}`, from, to };
  });
}

/** What to group by when nothing is chosen: the name where it tells trials apart, else the first setting that makes few
 * groups, else the first one. */
export function groupKey(trials: readonly Settled[], keys: readonly string[]): string {
  const isFew = (key: string): boolean => {
    const count = new Set(trials.map(({ settings }) => valueText(settings.get(key)))).size;
    return count > 1 && count <= MAX_GROUPS;
  };
  return keys.includes(FIRST_GROUP) ? FIRST_GROUP : (keys.find(isFew) ?? keys[0] ?? FIRST_GROUP);
}

/** The mean of finite values and their standard deviation; null without any, and for one value no deviation. */
export function meanOf(values: readonly (number | null)[]): { mean: number; sd: number | null; n: number } | null {
  const finite = values.filter((value): value is number => value !== null && Number.isFinite(value));
  const n = finite.length;
  if (n === 0) return null;
  const mean = finite.reduce((sum, value) => sum + value, 0) / n;
  const square = finite.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, sd: n > 1 ? Math.sqrt(square / (n - 1)) : null, n };
}

/** The mean of trials, each over its own time since `startMs` when that is given. */
export function groupCurve(members: readonly { columns: Columns; startMs: number }[], sinceStart: boolean): Columns {
  return meanOver(
    members.map(({ columns, startMs }) =>
      sinceStart ? { ...columns, timeMs: columns.timeMs.map((at) => at - startMs) } : columns,
    ),
  );
}

export const STATISTICS = ["last", "min", "max"] as const;
export type Statistic = (typeof STATISTICS)[number];

/** The index of the best value, by least or greatest; null when there is nothing to choose between. */
export function bestOf(values: readonly (number | null)[], goal: "min" | "max" | null): number | null {
  if (goal === null) return null;
  let best: number | null = null;
  values.forEach((value, i) => {
    if (value === null || !Number.isFinite(value)) return;
    const before = best === null ? null : (values[best] ?? null);
    if (before === null || (goal === "min" ? value < before : value > before)) best = i;
  });
  const found = values.filter((value) => value !== null && Number.isFinite(value));
  return found.length > 1 && found.some((value) => value !== found[0]) ? best : null;
}

/** A value beside the baseline's: the difference, and its share of the baseline; null where one is missing or no number. */
export function change(value: number | null, base: number | null): { by: number; share: number | null } | null {
  if (value === null || base === null || !Number.isFinite(value) || !Number.isFinite(base)) return null;
  return { by: value - base, share: base === 0 ? null : (value - base) / Math.abs(base) };
}

/** The figure of a metric where there is one, else its last value; null: not reported. */
export function valueOf(
  figures: Readonly<Record<string, number>>,
  summary: TrialDetail["summary"],
  name: string,
): number | null {
  const last = summary[name]?.last;
  return figures[name] ?? (last === undefined ? null : fromWire(last));
}
