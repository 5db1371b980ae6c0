// @vitest-environment node
import { describe, expect, test } from "vitest";

import type { Line, Source } from "../../charts/series/lines";
import type { Columns } from "../../lib/series/series";
import { expressionSource, heatOf, pairs, readAll, summed } from "./panelLines";

function columns(name: string, step: number[], values: number[], count = 1): Columns {
  const of = (list: number[]): Float64Array => Float64Array.from(list);
  return {
    name,
    rank: 0,
    bucketSteps: 1,
    numPoints: step.length * count,
    step: of(step),
    timeMs: of(step),
    min: of(values.map((one) => one - 1)),
    max: of(values.map((one) => one + 1)),
    mean: of(values),
    last: of(values),
    count: of(step.map(() => count)),
  };
}

const KNOWN = ["train/loss", "val/loss", "lr"];
const RUNS: Record<string, Record<string, Columns>> = {
  "7": { "train/loss": columns("train/loss", [1, 2], [4, 2]), "val/loss": columns("val/loss", [2], [3]) },
  "8": { "train/loss": columns("train/loss", [1, 2], [5, 1]) },
};
const source = ([metric = ""]: string[]): Source => ({
  lines: () =>
    Object.entries(RUNS).flatMap(([id, held], color): Line[] => {
      const found = held[metric];
      return found ? [{ key: `${metric}@${id}`, label: `run ${id}`, columns: found, color }] : [];
    }),
  subscribe: () => () => undefined,
  ready: () => true,
});
const drawn = (...texts: string[]): [string, number, number[]][] =>
  expressionSource(readAll(texts, KNOWN), source)
    .lines()
    .map((line) => [line.label, line.color, [...line.columns.mean]]);

describe("the lines of a panel", () => {
  test("are those of everybody who reports all metrics of an expression", () => {
    expect(drawn("train/loss - val/loss")).toEqual([["run 7", 0, [-1]]]);
    expect(drawn("train/loss")).toEqual([
      ["run 7", 0, [4, 2]],
      ["run 8", 1, [5, 1]],
    ]);
  });

  test("of several expressions have a label and a dash of their own", () => {
    expect(drawn("train/loss", "train/loss * 2").map(([label, color]) => [label, color])).toEqual([
      ["run 7 · train/loss", 0],
      ["run 7 · train/loss * 2", 6],
      ["run 8 · train/loss", 1],
      ["run 8 · train/loss * 2", 7],
    ]);
  });

  test("what cannot be read or is not reported is not drawn", () => {
    expect(drawn("train/loss +", "lr")).toEqual([]);
  });

  test("pairs are at the steps that both have", () => {
    const [x, y] = readAll(["val/loss", "train/loss"], KNOWN);
    if (!x || !y) throw new Error("unread");
    expect(pairs(x, [y], source)().map((one) => [one.label, [...one.x], [...one.y]])).toEqual([["run 7", [3], [2]]]);
  });
});

test("a curve in numbers weighs each point once, and what is not finite counts for nothing", () => {
  expect(summed(columns("a", [1, 2, 3], [1, 3, Number.NaN], 4))).toEqual({
    last: 3,
    min: 0,
    max: 4,
    mean: 2,
    points: 12,
  });
  expect(summed(columns("a", [1], [Number.NaN]))).toMatchObject({ last: null, mean: null });
});

test("a histogram over the steps counts every finite point once", () => {
  const heat = heatOf([columns("a", [0, 1, 2], [0, 10, Number.NaN], 3), columns("a", [1], [10])]);
  expect(heat?.counts.flat().reduce((sum, n) => sum + n, 0)).toBe(7);
  expect([heat?.counts.length, heat?.most, heat?.values[0], heat?.values.at(-1)]).toEqual([2, 4, 0, 10]);
  expect(heatOf([columns("a", [1], [Number.NaN])])).toBeNull();
  expect(heatOf([columns("a", [5], [1])])?.values.at(-1)).toBeCloseTo(1.5);
});
