// @vitest-environment node
import { expect, test } from "vitest";

import { bestOf, recentOf, shareOf, stepShares } from "./recent";

test("a mean says over how many steps it is, and the last value stands in for it", () => {
  expect(recentOf({ last: 9, recent_mean: 2, recent_count: 40 })).toEqual({ mean: 2, count: 40 });
  expect(recentOf({ last: 9, recent_mean: null, recent_count: 0 })).toEqual({ mean: 9, count: 1 });
  expect(recentOf({ last: "NaN", recent_mean: null, recent_count: 0 })).toBeNull();
  expect(recentOf(undefined)).toBeNull();
});

test("a share is of the sums", () => {
  const part = { last: 1, recent_mean: 30, recent_count: 50 };
  expect(shareOf(part, { last: 1, recent_mean: 120, recent_count: 60 })).toEqual({ mean: 0.25, count: 50 });
  expect(shareOf(part, { last: 0, recent_mean: 0, recent_count: 3 })).toBeNull();
  expect(shareOf(undefined, part)).toBeNull();
});

test("the best of a metric that is not the compared one is its least", () => {
  const entry = { min: 0.2, max: 0.9 };
  const compared = { metric_name: "val/accuracy", metric_goal: "max" };
  expect(bestOf("val/accuracy", entry, compared)).toBe(0.9);
  expect(bestOf("val/loss", entry, compared)).toBe(0.2);
  expect(bestOf("val/loss", entry, { metric_name: "val/loss", metric_goal: "min" })).toBe(0.2);
  expect(bestOf("train/loss", entry, { metric_name: null, metric_goal: null })).toBe(0.2);
});

test("the parts of a step make up its bar, without those too small to be seen", () => {
  const mean = (ms: number) => ({ last: ms, recent_mean: ms, recent_count: 10 });
  expect(
    stepShares({
      "time/step_ms": mean(100),
      "time/forward_ms": mean(20),
      "time/backward_ms": mean(50),
      "comm/exposed_ms": mean(30),
      "time/checkpoint_ms": mean(0.01),
    }).map(({ part, share }) => [part, Math.round(share * 100)]),
  ).toEqual([
    ["time/forward_ms", 20],
    ["time/backward_ms", 50],
    ["comm/exposed_ms", 30],
  ]);
  expect(stepShares({})).toEqual([]);
  // A script whose steps are timed as a whole.
  expect(stepShares({ "time/step_ms": mean(100), "time/other_ms": mean(100) })).toEqual([]);
});
