import { expect, test } from "vitest";

import { changedLimits, limitsOf } from "./limits";

const search = { has_fixed_trials: false, num_trials_planned: 40, concurrent: 4 };

test("limits are those of the document and of what is planned", () => {
  expect(limitsOf({}, search)).toEqual({ trials: 40, concurrent: 4, fixed: false, external: false });
  expect(limitsOf({}, { ...search, concurrent: null }).concurrent).toBe("auto");
  expect(limitsOf({}, { ...search, has_fixed_trials: true }).fixed).toBe(true);
  expect(limitsOf({ search: { runner: "external" } }, search).external).toBe(true);
});

test("only what differs is asked for", () => {
  const before = limitsOf({}, search);
  expect(changedLimits(before, 40, 4)).toBeNull();
  expect(changedLimits(before, 60, 4)).toEqual({ trials: 60 });
  expect(changedLimits(before, 40, "auto")).toEqual({ concurrent: "auto" });
  expect(changedLimits(before, "60", "8")).toEqual({ trials: 60, concurrent: 8 });
  expect(changedLimits(before, 60, "")).toBeNull();
  expect(changedLimits(limitsOf({}, { ...search, has_fixed_trials: true }), 60, 4)).toBeNull();
});
