// @vitest-environment node
import { expect, test } from "vitest";

import { goalOf } from "../../lib/series/series";
import {
  bestOf,
  change,
  colorsOf,
  differences,
  flatten,
  groupBy,
  groupKey,
  idsOf,
  MAX_GROUPED,
  MAX_TRIALS,
  meanOf,
  valueOf,
} from "./compareData";

test("ids stand in the address once each", () => {
  expect(idsOf("3,1,x,3,0,-2,2.5,7")).toEqual([3, 1, 7]);
  expect(idsOf(undefined)).toEqual([]);
  expect(idsOf(Array.from({ length: 400 }, (_, i) => i + 1).join(","))).toHaveLength(MAX_GROUPED);
});

test("a colour belongs to an id: order and later trials do not change it, and none is given twice", () => {
  const few = colorsOf([12, 6, 7]);
  expect(colorsOf([7, 12, 6])).toEqual(few);
  const more = colorsOf([7, 12, 6, 13, 18, 19, 25]);
  for (const [id, color] of few) expect(more.get(id)).toBe(color);
  expect(new Set(more.values()).size).toBe(7);
  const all = colorsOf(Array.from({ length: MAX_TRIALS }, (_, i) => i * 6));
  expect([...all.values()].toSorted((a, b) => a - b)).toEqual(Array.from({ length: MAX_TRIALS }, (_, i) => i));
});

test("keys that differ are found at any depth, hyperparameters first", () => {
  const a = flatten({ trainer: { lr: 1, decay: [1, 2] }, hyperparameters: { width: 3 }, off: false });
  const b = flatten({ trainer: { lr: 2, decay: [1, 2] }, hyperparameters: { width: 3 }, name: "b" });
  const rows = differences([a, b]);
  expect(rows.map((row) => row.key)).toEqual(["hyperparameters.width", "name", "off", "trainer.decay", "trainer.lr"]);
  expect(rows.filter((row) => row.differs).map((row) => row.key)).toEqual(["name", "off", "trainer.lr"]);
});

test("null, {} and [] are as if they were not there: they are no difference", () => {
  const a = flatten({ code: { installed: null, include: [] }, hyperparameters: {}, slots: 0 });
  const b = flatten({ code: null, slots: 0 });
  expect(differences([a, b]).map((row) => [row.key, row.differs])).toEqual([["slots", false]]);
});

test("a value is compared with the baseline's", () => {
  expect(change(3, 2)).toEqual({ by: 1, share: 0.5 });
  expect(change(-3, -2)).toEqual({ by: -1, share: -0.5 });
  expect(change(1, 0)).toEqual({ by: 1, share: null });
  expect([change(null, 1), change(1, Number.NaN), change(Number.POSITIVE_INFINITY, 1)]).toEqual([null, null, null]);
  const summary = { a: { last: 5 }, b: { last: "NaN" } } as unknown as Parameters<typeof valueOf>[1];
  expect(["a", "b", "c"].map((name) => valueOf({ a: 4 }, summary, name))).toEqual([4, Number.NaN, null]);
});

test("groups are by value, and best is by goal", () => {
  const trial = (id: number, lr: number) => ({ id, settings: new Map<string, unknown>([["trainer.lr", lr]]) });
  expect(groupBy([trial(1, 0.1), trial(2, 0.2), trial(3, 0.1)], "trainer.lr")).toEqual([
    { label: "lr=0.1", ids: [1, 3] },
    { label: "lr=0.2", ids: [2] },
  ]);
  expect(bestOf([3, null, 1, Number.NaN], "min")).toBe(2);
  expect(bestOf([3, 3], "max")).toBeNull();
  expect(bestOf([3], "min")).toBeNull();
  expect(goalOf("val/loss")).toBe("min");
  expect(goalOf("val/accuracy")).toBe("max");
  expect(goalOf("train/lr")).toBeNull();
});

const settled = (values: unknown[], key = "hyperparameters.lr") =>
  values.map((value, i) => ({ id: i + 1, settings: new Map(value === undefined ? [] : [[key, value]]) }));

test("hundreds of values of a number become ranges with as many trials each, from the lowest on", () => {
  const values = Array.from({ length: 100 }, (_, i) => (100 - i) / 1000);
  const groups = groupBy(settled([...values, undefined]), "hyperparameters.lr");
  expect(groups.map(({ label, ids }) => [label, ids.length])).toEqual([
    ["lr=0.001…0.025", 25],
    ["lr=0.026…0.05", 25],
    ["lr=0.051…0.075", 25],
    ["lr=0.076…0.1", 25],
    ["lr=–", 1],
  ]);
  expect(groups.flatMap(({ ids }) => ids)).toHaveLength(101);
  // Quantiles that are equal are one range.
  const skewed = groupBy(settled([...Array.from({ length: 50 }, () => 1), ...values]), "hyperparameters.lr");
  expect(skewed.reduce((sum, { ids }) => sum + ids.length, 0)).toBe(150);
  expect(new Set(skewed.map(({ label }) => label)).size).toBe(skewed.length);
});

test("few values of a number stay groups of their own", () => {
  expect(groupBy(settled([3, 1, 3]), "hyperparameters.lr").map(({ label, ids }) => [label, ids])).toEqual([
    ["lr=3", [1, 3]],
    ["lr=1", [2]],
  ]);
});

test("trials of one search are grouped by a setting that makes few groups", () => {
  const trials = Array.from({ length: 30 }, (_, i) => ({
    id: i,
    settings: new Map<string, unknown>([
      ["hyperparameters.lr", i / 7],
      ["hyperparameters.depth", i % 3],
    ]),
  }));
  const keys = ["hyperparameters.lr", "hyperparameters.depth"];
  expect(groupKey(trials, keys)).toBe("hyperparameters.depth");
  expect(groupKey(trials, ["hyperparameters.lr"])).toBe("hyperparameters.lr");
  expect(groupKey(trials, [...keys, "name"])).toBe("name");
  expect(groupKey(trials, [])).toBe("name");
});

test("a mean says how far values are apart, and passes over those that are none", () => {
  expect(meanOf([1, 3, null, Number.NaN])).toEqual({ mean: 2, sd: Math.SQRT2, n: 2 });
  expect(meanOf([4])).toEqual({ mean: 4, sd: null, n: 1 });
  expect(meanOf([null])).toBeNull();
});
