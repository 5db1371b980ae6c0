/** From what a page draws of metrics to what a panel draws of expressions. Pure but for the sources it reads. */
import type { Line, Source } from "../../charts/series/lines";
import { curveOf, type Expression, readExpression, together } from "../../lib/series/expression";
import { subscribeAll } from "../../lib/perFrame";
import type { Columns } from "../../lib/series/series";

/** Hues of the palette: the same hue dashed tells a run's second expression from its first. */
const HUES = 6;

/** Expressions as they are written; those that cannot be read are left out. */
export const readAll = (texts: readonly string[], known: readonly string[]): Expression[] =>
  texts.flatMap((text) => readExpression(text, known).expression ?? []);

export const metricsOf = (expressions: readonly Expression[]): string[] => [
  ...new Set(expressions.flatMap((one) => one.metrics)),
];

/** The curves of one run, one rank or one group of runs, by metric. */
interface Who {
  key: string;
  line: Line;
  columns: Map<string, Columns>;
}

/** Whose curves a page draws. Its lines are called by metric and whose they are: "train/loss@7". */
function everybody(bases: readonly (readonly [string, Source])[]): Who[] {
  const found = new Map<string, Who>();
  for (const [metric, source] of bases) {
    for (const line of source.lines()) {
      if (line.columns.step.length === 0) continue;
      const key = line.key.slice(metric.length + 1);
      const who = found.get(key) ?? { key, line, columns: new Map<string, Columns>() };
      who.columns.set(metric, line.columns);
      found.set(key, who);
    }
  }
  return [...found.values()];
}

/** Curves of expressions, for all of whom the page draws the metrics of. `source` answers for one metric. */
export function expressionSource(expressions: readonly Expression[], source: (names: string[]) => Source): Source {
  const bases = metricsOf(expressions).map((metric) => [metric, source([metric])] as const);
  const lines = (): Line[] => {
    const all = everybody(bases);
    const isOne = all.length === 1;
    return all.flatMap(({ key, line, columns }) =>
      expressions.flatMap((expression, no) => {
        const curve = curveOf(expression, (metric) => columns.get(metric));
        if (!curve) return [];
        const whose = expressions.length > 1 ? `${line.label} · ${expression.text}` : line.label;
        return [
          {
            ...line,
            key: `${expression.text}@${key}`,
            label: isOne ? expression.text : whose,
            columns: curve,
            color: isOne ? no : line.color + no * HUES,
            band: expression.isPlain ? line.band : false,
          },
        ];
      }),
    );
  };
  return {
    ...joined(bases.map(([, one]) => one)),
    lines,
  };
}

/** What several sources say together, but for their lines. */
function joined(all: readonly Source[]): Omit<Source, "lines"> {
  const [first] = all;
  return {
    subscribe: (listener) => subscribeAll(all, listener),
    restarts: () => first?.restarts?.() ?? [],
    checkpoints: () => first?.checkpoints?.() ?? [],
    guards: () => first?.guards?.() ?? [],
    range: () => first?.range?.() ?? {},
    error: () => all.find((one) => one.error?.())?.error?.() ?? null,
    ready: () => all.every((one) => one.ready()),
  };
}

export interface PairedLine {
  key: string;
  label: string;
  color: number;
  step: Float64Array;
  x: Float64Array;
  y: Float64Array;
}

/** Each expression against another one, at the steps that both have. */
export function pairs(
  x: Expression,
  ys: readonly Expression[],
  source: (names: string[]) => Source,
): () => PairedLine[] {
  const bases = metricsOf([x, ...ys]).map((metric) => [metric, source([metric])] as const);
  return () => {
    const all = everybody(bases);
    return all.flatMap(({ key, line, columns }) =>
      ys.flatMap((y, no) => {
        const [across, up] = together([x, y], (metric) => columns.get(metric)) ?? [];
        if (!across || !up) return [];
        const label = ys.length > 1 ? `${line.label} · ${y.text}` : line.label;
        return [
          {
            key: `${y.text}@${key}`,
            label: all.length === 1 ? y.text : label,
            color: all.length === 1 ? no : line.color + no * HUES,
            step: across.step,
            x: across.mean,
            y: up.mean,
          },
        ];
      }),
    );
  };
}

export interface Summed {
  last: number | null;
  min: number | null;
  max: number | null;
  mean: number | null;
  points: number;
}

/** A curve in five numbers; null where it has no finite value. `mean` weighs each point once. */
export function summed({ min, max, mean, last, count, numPoints }: Columns): Summed {
  let [low, high, sum, weight] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0];
  let final: number | null = null;
  for (let i = 0; i < mean.length; i += 1) {
    const value = mean[i] ?? Number.NaN;
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, min[i] ?? value);
    high = Math.max(high, max[i] ?? value);
    const points = count[i] ?? 1;
    sum += value * points;
    weight += points;
    const latest = last[i] ?? value;
    final = Number.isFinite(latest) ? latest : value;
  }
  if (final === null) return { last: null, min: null, max: null, mean: null, points: numPoints };
  return { last: final, min: low, max: high, mean: sum / weight, points: numPoints };
}

export interface Heat {
  /** Edges of the steps and of the values: one more than there are columns and rows. */
  steps: number[];
  values: number[];
  /** By column, then by row from the lowest value: how many points. */
  counts: number[][];
  most: number;
}

const COLUMNS = 40;
const ROWS = 20;

/** How values are distributed over the steps: of all lines together, each bucket as many points as it holds. */
export function heatOf(all: readonly Columns[]): Heat | null {
  let [first, end, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { step, mean } of all)
    mean.forEach((value, i) => {
      if (!Number.isFinite(value)) return;
      [first, end] = [Math.min(first, step[i] ?? 0), Math.max(end, step[i] ?? 0)];
      [low, high] = [Math.min(low, value), Math.max(high, value)];
    });
  if (!(end >= first)) return null;
  if (high === low) [low, high] = [low - 0.5, high + 0.5];
  const columns = Math.min(COLUMNS, end - first + 1);
  const [wide, tall] = [(end - first + 1) / columns, (high - low) / ROWS];
  const counts = Array.from({ length: columns }, () => Array.from({ length: ROWS }, () => 0));
  let most = 0;
  for (const { step, mean, count } of all)
    mean.forEach((value, i) => {
      if (!Number.isFinite(value)) return;
      const column = counts[Math.min(columns - 1, Math.floor(((step[i] ?? 0) - first) / wide))];
      const row = Math.min(ROWS - 1, Math.floor((value - low) / tall));
      if (!column) return;
      column[row] = (column[row] ?? 0) + (count[i] ?? 1);
      most = Math.max(most, column[row] ?? 0);
    });
  return {
    steps: Array.from({ length: columns + 1 }, (_, i) => first + i * wide),
    values: Array.from({ length: ROWS + 1 }, (_, i) => low + i * tall),
    counts,
    most,
  };
}
