import { expect, test } from "vitest";

import type { TrialDetail } from "../../api/queries";
import { isIdle } from "./idle";

const SUMMARY = {
  "comm/bytes": { max: 0 },
  "comm/world/all_reduce/bytes": { max: 12 },
  "time/forward_ms": { max: 0 },
} as unknown as TrialDetail["summary"];

test("communication of one process that sends nothing is no chart; what is sent, or by several, is one", () => {
  expect(isIdle(SUMMARY, "comm/bytes", 1)).toBe(true);
  expect(isIdle(SUMMARY, "comm/bytes", 2)).toBe(false);
  expect(isIdle(SUMMARY, "comm/world/all_reduce/bytes", 1)).toBe(false);
  expect(isIdle(SUMMARY, "time/forward_ms", 1)).toBe(false);
  expect(isIdle(SUMMARY, "comm/not_summarized", 1)).toBe(false);
});
