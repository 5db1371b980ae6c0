/** From the columns of a search's results to its timeline and its map of two hyperparameters. Pure. */
import { type Axis, place, type Results, valueAt } from "./searchData";

export const TIMELINE_MAX = 10_000;
export const CELLS = 12;

export interface Bar {
  index: number;
  /** The row it is drawn in: so many run side by side. */
  lane: number;
  /** Milliseconds since 1970. */
  from: number;
  to: number;
}

/** The latest trials that have started, each in the first lane that is free; `now` ends those that run. */
export function timeline(results: Results, now: number): { bars: Bar[]; lanes: number; all: number } {
  const started = results.no.flatMap((_, index) => {
    const from = results.started_at[index];
    const to = results.ended_at[index];
    return from ? [{ index, from: Date.parse(from), to: to ? Date.parse(to) : now }] : [];
  });
  started.sort((a, b) => a.from - b.from || a.index - b.index);
  const free: number[] = [];
  const bars = started.slice(-TIMELINE_MAX).map((one) => {
    let lane = free.findIndex((until) => until <= one.from);
    if (lane < 0) lane = free.length;
    free[lane] = Math.max(one.to, one.from);
    return { ...one, to: Math.max(one.to, one.from), lane };
  });
  return { bars, lanes: free.length, all: started.length };
}

export interface Cell {
  column: number;
  row: number;
  count: number;
  best: number;
}

/** Rows of an axis: one for each choice and each level, else as many as are easy to see. */
export const binsOf = (axis: Axis): number => axis.choices.length || axis.levels?.length || CELLS;

function bin(axis: Axis, at: number): number {
  if (axis.choices.length > 0) return Math.round(at * (axis.choices.length - 1));
  if (axis.levels && axis.levels.length > 0) {
    const value = valueAt(axis, at);
    const distances = axis.levels.map((level) => Math.abs(level - value));
    return distances.indexOf(Math.min(...distances));
  }
  return Math.min(CELLS - 1, Math.floor(at * CELLS));
}

/** The values of a row from its low edge to its high one; equal for a level. Integers are those inside. */
export function spanOf(axis: Axis, row: number): [number, number] {
  const level = axis.levels?.[row];
  if (level !== undefined) return [level, level];
  const [low, high] = [valueAt(axis, row / CELLS), valueAt(axis, (row + 1) / CELLS)];
  if (!axis.isInteger) return [low, high];
  const last = row === CELLS - 1 ? Math.round(high) : Math.ceil(high - 1e-9) - 1;
  // Minus zero is written with a sign.
  return [Math.ceil(low - 1e-9) || 0, last];
}

/** The best value in each field of a grid over two axes; fields without trials are left out. */
export function contour(
  results: Results,
  across: Axis,
  up: Axis,
  metric: (number | null)[],
  inside: number[],
): { cells: Cell[]; columns: number; rows: number } {
  const found = new Map<string, Cell>();
  const isBetter = (a: number, b: number): boolean => (results.metric_goal === "max" ? a > b : a < b);
  for (const index of inside) {
    const x = place(across, results, metric, index);
    const y = place(up, results, metric, index);
    const value = metric[index] ?? null;
    if (x === null || y === null || value === null) continue;
    const [column, row] = [bin(across, x), bin(up, y)];
    const before = found.get(`${column}:${row}`);
    found.set(`${column}:${row}`, {
      column,
      row,
      count: (before?.count ?? 0) + 1,
      best: before && !isBetter(value, before.best) ? before.best : value,
    });
  }
  return {
    cells: [...found.values()].toSorted((a, b) => a.row - b.row || a.column - b.column),
    columns: binsOf(across),
    rows: binsOf(up),
  };
}
