// @vitest-environment node
import { expect, test } from "vitest";

import type { TrialDetail } from "../../api/queries";
import { homeOf, isApplicable, TABS } from "./tabs";

const attempts = [{ no: 1 }] as TrialDetail["attempts"];
const script = { state: "RUNNING", attempts, config: { entrypoint: ["train.py"], trainer: null }, unmanaged: null };

test("a script without metrics opens on its log, the built-in trainer waits for its first metric", () => {
  expect(homeOf(script, false)).toBe("logs");
  expect(homeOf(script, true)).toBe("metrics");
  expect(homeOf({ ...script, config: { trainer: { model: "mlp" } } }, false)).toBe("metrics");
});

test("what ended without a metric opens on its log, what never began or runs elsewhere does not", () => {
  expect(homeOf({ ...script, state: "FAILED", config: { trainer: { model: "mlp" } } }, false)).toBe("logs");
  expect(homeOf({ ...script, state: "QUEUED" }, false)).toBe("metrics");
  expect(homeOf({ ...script, state: "CANCELED", attempts: [] }, false)).toBe("metrics");
  expect(homeOf({ ...script, state: "COMPLETED", unmanaged: "mlflow" }, false)).toBe("metrics");
});

test("what runs elsewhere or has not begun has no tabs of what only a node knows", () => {
  const shown = (trial: Partial<TrialDetail>): string[] =>
    TABS.filter((name) => isApplicable(name, { attempts, unmanaged: null, ...trial }));
  expect(shown({})).toEqual([...TABS]);
  expect(shown({ unmanaged: "mlflow" })).toEqual(["metrics", "media", "evaluation", "config", "details", "events"]);
  expect(shown({ attempts: [] })).toEqual(["metrics", "media", "config", "details", "events"]);
});
