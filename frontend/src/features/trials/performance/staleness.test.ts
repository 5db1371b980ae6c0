// @vitest-environment node
import { expect, test } from "vitest";

import type { TrialDetail } from "../../../api/queries";
import { stalenessOf } from "./staleness";

const summary = (values: Record<string, number | string>): TrialDetail["summary"] =>
  Object.fromEntries(Object.entries(values).map(([name, last]) => [name, { last }])) as TrialDetail["summary"];

test("bins come by what they begin with, with their share of all gradients", () => {
  const found = stalenessOf(
    summary({
      "staleness/8_15": 1,
      "staleness/0": 6,
      "staleness/2": 3,
      "train/loss": 0.5,
      "train/staleness_updates": 2,
    }),
  );
  expect(found).toEqual([
    { label: "0", from: 0, count: 6, share: 0.6 },
    { label: "2", from: 2, count: 3, share: 0.3 },
    { label: "8–15", from: 8, count: 1, share: 0.1 },
  ]);
});

test("a strategy that counts none has no bins", () => {
  expect(stalenessOf(summary({ "train/loss": 0.5 }))).toEqual([]);
});
