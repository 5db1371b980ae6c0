import { expect, test } from "vitest";

import { barsOf } from "./LogHistogram";

const data = {
  edges_ms: [0, 1000, 2000, 3000],
  num_lines: [5, 0, 3],
  levels: { debug: [0, 0, 0], info: [2, 0, 0], warning: [0, 0, 1], error: [1, 0, 2], critical: [0, 0, 0] },
  num_left: 0,
};

test("bars say what their lines name, and how many name nothing", () => {
  expect(barsOf(data, []).map((bar) => [bar.from, bar.to, bar.total, Object.fromEntries(bar.byLevel)])).toEqual([
    [0, 1000, 5, { null: 2, info: 2, error: 1 }],
    [1000, 2000, 0, {}],
    [2000, 3000, 3, { warning: 1, error: 2 }],
  ]);
});

test("of a filter by level only these are counted", () => {
  expect(barsOf(data, ["error", "critical"]).map((bar) => bar.total)).toEqual([1, 0, 2]);
});
