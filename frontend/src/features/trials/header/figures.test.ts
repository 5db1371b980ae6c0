// @vitest-environment node
import { expect, test } from "vitest";

import { bestOf, isMeasured, shareOf, stepShares } from "./figures";

test("a share is of the sums", () => {
  expect(shareOf({ "comm/exposed_ms": 30, "time/step_ms": 120 }, "comm/exposed_ms")).toBe(0.25);
  expect(shareOf({ "comm/exposed_ms": 30, "time/step_ms": 0 }, "comm/exposed_ms")).toBeNull();
  expect(shareOf({ "time/step_ms": 120 }, "comm/exposed_ms")).toBeNull();
});

test("only what has measured something is asked for its figures", () => {
  expect(isMeasured({ "train/loss": 1, "throughput/rows_per_s": 1 })).toBe(true);
  expect(isMeasured({ "train/loss": 1, runtime: 1 })).toBe(false);
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
  expect(
    stepShares({
      "time/step_ms": 100,
      "time/forward_ms": 20,
      "time/backward_ms": 50,
      "comm/exposed_ms": 30,
      "time/checkpoint_ms": 0.01,
    }).map(({ part, share }) => [part, Math.round(share * 100)]),
  ).toEqual([
    ["time/forward_ms", 20],
    ["time/backward_ms", 50],
    ["comm/exposed_ms", 30],
  ]);
  expect(stepShares({})).toEqual([]);
  // A script whose steps are timed as a whole.
  expect(stepShares({ "time/step_ms": 100, "time/other_ms": 100 })).toEqual([]);
});
