/** What a comparison shows, worked out from trials. Pure. */
import type { TrialDetail } from "../../api/queries";
import { meanOver } from "../../lib/axis";
import { fromWire } from "../../lib/format";
import type { Columns } from "../../lib/series";
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

/** Trials by the value of a key, in the order of their first member. */
export function groupBy(trials: readonly { id: number; settings: Map<string, unknown> }[], key: string): Group[] {
  const groups = new Map<string, number[]>();
  for (const { id, settings } of trials) {
    const value = valueText(settings.get(key)) || "–";
    groups.set(value, [...(groups.get(value) ?? []), id]);
  }
  return [...groups].map(([value, ids]) => ({ label: `${key.slice(key.lastIndexOf(".") + 1)}=${value}`, ids }));
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

/** The mean of the newest values of a metric where the server keeps one, else its last value; null: not reported. */
export function recentOf(summary: TrialDetail["summary"], name: string): number | null {
  const one = summary[name];
  return one === undefined ? null : (one.recent_mean ?? fromWire(one.last));
}
