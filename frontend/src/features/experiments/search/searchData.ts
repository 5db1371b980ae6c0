/** From the columns of a search's results to what its charts draw. Pure. */
import { fromWire } from "../../../lib/format";
import type { components } from "../../../api/schema.gen";

export type Results = components["schemas"]["SearchResultsOut"];

export interface Axis {
  name: string;
  /** Index into `values`; -1 is the metric. */
  column: number;
  log: boolean;
  /** Of choices, in the document's order; empty for numbers. */
  choices: string[];
  low: number;
  high: number;
  /** Numbers that have a row of their own, ascending: every integer of a short range, or the few values there are. */
  levels?: readonly number[];
  /** All of its values are integers. */
  isInteger?: boolean;
}

/** More rows than these cannot be told apart. */
export const LEVELS_MAX = 16;

/** Where an axis has those that have no value on it: below all others. */
export const ABSENT = -0.12;

export interface Range {
  low: number;
  high: number;
}

/** The metric of each trial; null where it has none, or one without a place on an axis. */
export function metrics(results: Results): (number | null)[] {
  return results.metric.map((raw) => {
    const value = fromWire(raw);
    return value !== null && Number.isFinite(value) ? value : null;
  });
}

/** Best value up to each trial, in order of number. */
export function bestSoFar(values: (number | null)[], goal: string | null): (number | null)[] {
  let best: number | null = null;
  return values.map((value) => {
    if (value !== null && (best === null || (goal === "max" ? value > best : value < best))) best = value;
    return best;
  });
}

const isLog = (low: number, high: number): boolean => low > 0 && high / low > 50;
/** Whether values have a logarithmic axis: as it is asked for, where they can; by itself where they differ by much. */
export const isLogAxis = (low: number, high: number, isAsked?: boolean): boolean =>
  low > 0 && (isAsked ?? isLog(low, high));

/** The values that have a row of their own; none for what was drawn from a continuum. */
function levelsOf(numbers: readonly number[], low: number, high: number): number[] {
  if (numbers.every(Number.isInteger) && high - low < LEVELS_MAX)
    return Array.from({ length: high - low + 1 }, (_, i) => low + i);
  const distinct = [...new Set(numbers)];
  // Values that come again were chosen from a list, or lie on a grid.
  return distinct.length <= LEVELS_MAX && distinct.length * 2 <= numbers.length
    ? distinct.toSorted((a, b) => a - b)
    : [];
}

/**
 * How good values are among each other, from 0 for the worst to 1 for the best: by their order, or by their size. Values
 * that are not all above zero have no logarithm: then by their size as it is.
 */
export function goodness(
  values: readonly number[],
  goal: string | null,
  scale: "rank" | "log" | "linear",
): (value: number) => number {
  const sorted = [...new Set(values)].toSorted((a, b) => a - b);
  const [low = 0, high = 0] = [sorted[0], sorted.at(-1)];
  const isLog = scale === "log" && low > 0;
  const places = scale === "rank" ? new Map(sorted.map((value, at) => [value, at])) : null;
  const size = (value: number): number => (places ? (places.get(value) ?? 0) : isLog ? Math.log(value) : value);
  const [from, to] = [size(low), size(high)];
  return (value) => {
    if (from === to) return 1;
    const share = (size(value) - from) / (to - from);
    return goal === "max" ? share : 1 - share;
  };
}

/** Axes with the most important hyperparameter first; those without a share keep their order behind it, the metric is last. */
export function byImportance(
  all: readonly Axis[],
  shares: Readonly<Record<string, number>> | null | undefined,
): Axis[] {
  const share = (axis: Axis): number => (axis.column < 0 ? -2 : (shares?.[axis.name] ?? -1));
  return all.toSorted((a, b) => share(b) - share(a));
}

/**
 * One axis per hyperparameter and, last, one for the metric: with a logarithmic scale where that is asked for, or by itself
 * where values differ by much. A hyperparameter without two values is left out.
 */
export function axes(results: Results, isLogMetric?: boolean): Axis[] {
  const found: Axis[] = [];
  results.parameters.forEach((parameter, column) => {
    if (parameter.kind === "choice") {
      if (parameter.choices.length > 1)
        found.push({
          name: parameter.name,
          column,
          log: false,
          choices: parameter.choices,
          low: 0,
          high: parameter.choices.length - 1,
        });
      return;
    }
    const numbers = (results.values[column] ?? []).filter((value): value is number => typeof value === "number");
    const [low = 0, high = 0] = extremes(numbers);
    if (high <= low) return;
    const levels = levelsOf(numbers, low, high);
    const isInteger = numbers.every(Number.isInteger);
    found.push({
      name: parameter.name,
      column,
      log: parameter.log && low > 0,
      choices: [],
      low,
      high,
      levels,
      isInteger,
    });
  });
  const values = metrics(results).filter((value): value is number => value !== null);
  if (values.length > 0) {
    const [low = 0, high = 0] = extremes(values);
    found.push({
      name: results.metric_name ?? "",
      column: -1,
      log: isLogAxis(low, high, isLogMetric),
      choices: [],
      low,
      high,
    });
  }
  return found;
}

/** [least, greatest]: Math.min(...list) of a long list overflows the stack. */
export function extremes(numbers: number[]): number[] {
  if (numbers.length === 0) return [];
  let low = numbers[0] as number;
  let high = low;
  for (const value of numbers) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** Where a trial stands on an axis, 0 to 1; null when it has no value there. */
export function place(axis: Axis, results: Results, metric: (number | null)[], index: number): number | null {
  const raw = axis.column < 0 ? metric[index] : results.values[axis.column]?.[index];
  if (raw === null || raw === undefined) return null;
  const value = typeof raw === "string" ? axis.choices.indexOf(raw) : raw;
  return typeof raw === "string" && value < 0 ? null : scaled(axis, value);
}

export function scaled(axis: Axis, value: number): number {
  const scale = (v: number): number => (axis.log ? Math.log(v) : v);
  const span = scale(axis.high) - scale(axis.low);
  return span > 0 ? (scale(value) - scale(axis.low)) / span : 0.5;
}

/** The value at a place of an axis, the inverse of `scaled`. */
export function valueAt(axis: Axis, at: number): number {
  if (axis.log) return Math.exp(Math.log(axis.low) + at * (Math.log(axis.high) - Math.log(axis.low)));
  return axis.low + at * (axis.high - axis.low);
}

/** The same, with a place for those that have no value. */
export const placeOrAbsent = (axis: Axis, results: Results, metric: (number | null)[], index: number): number =>
  place(axis, results, metric, index) ?? ABSENT;

/** Indices of the trials that have a metric and lie within every brush (places; `ABSENT`: no value). */
export function matching(
  results: Results,
  all: Axis[],
  metric: (number | null)[],
  brushes: ReadonlyMap<string, Range>,
): number[] {
  const found: number[] = [];
  for (let index = 0; index < results.no.length; index += 1) {
    if (metric[index] === null) continue;
    const fits = all.every((axis) => {
      const brush = brushes.get(axis.name);
      if (!brush) return true;
      const at = placeOrAbsent(axis, results, metric, index);
      return at >= brush.low - 1e-9 && at <= brush.high + 1e-9;
    });
    if (fits) found.push(index);
  }
  return found;
}

/** An axis for one of several objectives; null where nothing finite was reported. */
export function objectiveAxis(results: Results, index: number): Axis | null {
  const one = results.objectives[index];
  const finite = (one?.values ?? [])
    .map(fromWire)
    .filter((value): value is number => value !== null && Number.isFinite(value));
  const [low, high] = extremes(finite);
  return one === undefined || low === undefined || high === undefined
    ? null
    : { name: one.metric, column: -1, log: isLog(low, high), choices: [], low, high };
}

/** Where trials stand on two axes of objectives, 0 to 1 across and in values up. Without those that lack one. */
export function objectiveDots(
  results: Results,
  across: number,
  up: number,
): { at: number; y: number; faint: boolean; index: number }[] {
  const axis = objectiveAxis(results, across);
  if (axis === null) return [];
  const front = new Set(results.front);
  return results.no.flatMap((_, index) => {
    const x = fromWire(results.objectives[across]?.values[index] ?? null);
    const y = fromWire(results.objectives[up]?.values[index] ?? null);
    return x === null || y === null || !Number.isFinite(x) || !Number.isFinite(y)
      ? []
      : [{ at: scaled(axis, x), y, faint: !front.has(index), index }];
  });
}

/** Index of the best trial; of equal ones the lower number. -1: none has a value. */
export const bestOf = (metric: (number | null)[], goal: string | null): number =>
  byMetric(
    metric.flatMap((value, i) => (value === null ? [] : [i])),
    metric,
    goal,
  )[0] ?? -1;

/** A trial's ancestors, the first one first, and itself: each is a clone of the one before. Indices. */
export function ancestry(results: Results, index: number): number[] {
  const byNo = new Map(results.no.map((no, i) => [no, i]));
  const line: number[] = [];
  for (let at: number | undefined = index; at !== undefined;) {
    line.unshift(at);
    const parent: number | null | undefined = results.parent_no[at];
    at = parent === null || parent === undefined ? undefined : byNo.get(parent);
  }
  return line;
}

/** Best first; of equal ones the lower number. */
export function byMetric(indices: number[], metric: (number | null)[], goal: string | null): number[] {
  const sign = goal === "max" ? -1 : 1;
  return indices.toSorted((a, b) => sign * ((metric[a] ?? 0) - (metric[b] ?? 0)) || a - b);
}
