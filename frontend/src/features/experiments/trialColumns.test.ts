// @vitest-environment node
import { expect, test } from "vitest";

import {
  canSort,
  conditionsOf,
  firstColumns,
  nextTrialSort,
  readTrialColumns,
  trialColumnName,
  writeTrialColumns,
} from "./trialColumns";

test("columns stand in the address, whatever their names", () => {
  const first = firstColumns(["lr", "a,b"], true);
  expect(first).toEqual(["state", "metric", "hparam.lr", "hparam.a,b", "step", "restarts", "elapsed"]);
  expect(writeTrialColumns(first, first)).toBeUndefined();
  const chosen = ["hparam.a,b", "metric.last.val/acc %", "elapsed"];
  expect(readTrialColumns(writeTrialColumns(chosen, first))).toEqual(chosen);
  expect(readTrialColumns("priority,%E0%A4%A,hparam.,metric.best.x")).toBeNull();
  expect(readTrialColumns(undefined)).toBeNull();
});

test("a head sorts the largest first, the search's metric the best first, and then the other way", () => {
  expect(nextTrialSort("no", "hparam.lr", "min")).toBe("-hparam.lr");
  expect(nextTrialSort("-hparam.lr", "hparam.lr", "min")).toBe("hparam.lr");
  expect(nextTrialSort("no", "metric", "min")).toBe("metric");
  expect(nextTrialSort("no", "metric", "max")).toBe("-metric");
  expect(nextTrialSort("no", "no", "max")).toBe("-no");
  expect([canSort("restarts"), canSort("metric.min.a"), canSort("nothing")]).toEqual([false, true, false]);
});

test("a range is a condition for each of its ends", () => {
  expect(conditionsOf("hparam.lr", " 1e-3", "", "")).toEqual(["hparam.lr >= 1e-3"]);
  expect(conditionsOf("step", "1", "9", "")).toEqual(["step >= 1", "step <= 9"]);
  expect(conditionsOf("state", "", "", "FAILED")).toEqual(["state = FAILED"]);
  expect(trialColumnName("metric.min.val/loss")).toEqual({ name: "val/loss", of: "min" });
  expect(trialColumnName("hparam.metric.min.x")).toEqual({ name: "metric.min.x", of: null });
});
