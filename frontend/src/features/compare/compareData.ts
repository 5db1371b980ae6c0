/** What a comparison shows, worked out from trials. Pure. */
import type { TrialDetail } from "../../api/queries";
import { meanOver } from "../../lib/axis";
import type { Columns } from "../../lib/series";
import { flatten, valueText } from "../../lib/settings";

export { flatten, valueText };

const HUES = 6;
const DASHED = 4;

/** As many as have a look of their own: six hues, four dashes. */
export const MAX_TRIALS = HUES * DASHED;

/** "3,1,2" as ids, each once, those that are none left out; at most MAX_TRIALS. */
export function idsOf(text: string | undefined): number[] {
  const ids = (text ?? "")
    .split(",")
    .map(Number)
    .filter((id) => Number.isInteger(id) && id > 0);
  return [...new Set(ids)].slice(0, MAX_TRIALS);
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

/** Whether less or more of a metric is better, by what it is called; null when that says nothing. */
export function goalOf(metric: string): "min" | "max" | null {
  const name = metric.slice(metric.lastIndexOf("/") + 1);
  if (/loss|error|perplexity/.test(name)) return "min";
  if (/accuracy|f1|recall|precision|per_s/.test(name)) return "max";
  return null;
}
