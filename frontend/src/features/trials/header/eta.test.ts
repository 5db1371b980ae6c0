// @vitest-environment node
import { expect, test } from "vitest";

import { etaS } from "./eta";

const base = {
  state: "RUNNING",
  step: 100,
  num_steps_planned: 600,
  last_report_at: "2026-01-01T00:01:40Z",
  attempts: [{ no: 1, resume_step: 0, started_at: "2026-01-01T00:00:00Z" }],
};

test("the rest takes as long as recent steps did", () => {
  expect(etaS(base, 20)).toBe(10);
});

test("without step times the pace of the attempt counts, from where it resumed", () => {
  expect(etaS({ ...base }, null)).toBe(500);
  const attempts = [{ no: 2, resume_step: 50, started_at: "2026-01-01T00:00:00Z" }, ...base.attempts];
  expect(etaS({ ...base, attempts }, null)).toBe(1000);
});

test("nothing is said of what does not run, has no end, or has hardly begun", () => {
  expect(etaS({ ...base, state: "PAUSED" }, null)).toBeNull();
  expect(etaS({ ...base, num_steps_planned: null }, null)).toBeNull();
  expect(etaS({ ...base, step: 600 }, null)).toBeNull();
  expect(etaS({ ...base, step: 5 }, null)).toBeNull();
  expect(etaS({ ...base, last_report_at: null }, null)).toBeNull();
});
