// @vitest-environment node
import { expect, test } from "vitest";

import type { TrialDetail } from "../../api/queries";
import { latestAttempt } from "./attempt";

const attempts = (...numbers: number[]): Pick<TrialDetail, "attempts"> =>
  ({ attempts: numbers.map((no) => ({ no })) }) as TrialDetail;

test("the latest attempt is the one with the greatest number, in whatever order they come", () => {
  expect(latestAttempt(attempts(3, 2, 1))?.no).toBe(3);
  expect(latestAttempt(attempts(1, 2))?.no).toBe(2);
  expect(latestAttempt(attempts())).toBeUndefined();
});
