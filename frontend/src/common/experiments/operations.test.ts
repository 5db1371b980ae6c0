// @vitest-environment node
import { expect, test } from "vitest";

import { lengthOf } from "./length";
import { effects, goingOn, offered, refused, touched } from "./operations";

const ada = { role: "member", username: "ada" } as const;
const base = {
  state: "RUNNING",
  desired: "run",
  archived_at: null,
  owner: "ada",
  num_trials_by_state: {},
  num_trials: 0,
  num_trials_planned: null,
  unmanaged: null,
} as const;

test("what is offered follows the state and what was asked for last", () => {
  expect(offered(base, ada)).toEqual(["pause", "stop", "fork", "session", "kill"]);
  expect(offered({ ...base, state: "PAUSED", desired: "pause" }, ada)).toEqual([
    "resume",
    "stop",
    "fork",
    "session",
    "kill",
  ]);
  expect(offered({ ...base, desired: "stop" }, ada)).toEqual(["fork", "session", "kill"]);
  expect(offered({ ...base, desired: "kill" }, ada)).toEqual(["fork", "session"]);
  expect(offered({ ...base, state: "FAILED" }, ada)).toEqual(["continue", "fork", "session", "archive", "delete"]);
  expect(offered({ ...base, state: "FAILED", archived_at: "2026-01-01T00:00:00Z" }, ada)).toContain("unarchive");
});

test("others than owner and administrators may fork, viewers nothing", () => {
  expect(offered(base, { role: "member", username: "bob" })).toEqual(["fork", "session"]);
  expect(offered(base, { role: "admin", username: "eve" })).toContain("stop");
  expect(offered(base, { role: "viewer", username: "ada" })).toEqual([]);
  expect(offered(base, undefined)).toEqual([]);
});

test("a confirmation counts trials that run, that wait, and that are still to be created", () => {
  const what = touched({
    num_trials_by_state: { RUNNING: 2, STARTING: 1, QUEUED: 3, PAUSED: 1, COMPLETED: 4 },
    num_trials: 11,
    num_trials_planned: 16,
  });
  expect(what).toEqual({ active: 3, waiting: 4, planned: 5 });
  expect(effects("stop", what)).toEqual([
    { key: "stopActive", count: 3 },
    { key: "endWaiting", count: 4 },
    { key: "endPlanned", count: 5 },
  ]);
  expect(effects("kill", { active: 0, waiting: 1, planned: 0 })).toEqual([{ key: "endWaiting", count: 1 }]);
  expect(touched({ num_trials_by_state: {}, num_trials: 3, num_trials_planned: null }).planned).toBe(0);
});

test("who goes on depends on the search and on more length", () => {
  const trials = { FAILED: 1, CANCELED: 2, COMPLETED: 5, STOPPED_EARLY: 1 };
  expect(goingOn({ num_trials_by_state: { COMPLETED: 1 } }, { is_search: false, compares: false }, true)).toEqual([
    { key: "single", count: 1 },
  ]);
  expect(goingOn({ num_trials_by_state: trials }, { is_search: true, compares: false }, false)).toEqual([
    { key: "broken", count: 3 },
    { key: "stay", count: 6 },
  ]);
  expect(goingOn({ num_trials_by_state: trials }, { is_search: true, compares: false }, true)).toEqual([
    { key: "broken", count: 3 },
    { key: "longer", count: 6 },
  ]);
  expect(goingOn({ num_trials_by_state: trials }, { is_search: true, compares: true }, false)).toEqual([
    { key: "underWay", count: 2 },
  ]);
});

test("the length is the search's, else the trainer's, else the code's own", () => {
  expect(lengthOf({ search: { max_length: { epochs: 9, steps: null } }, trainer: { epochs: 3 } })).toEqual({
    unit: "epochs",
    value: 9,
  });
  expect(lengthOf({ search: { max_length: null }, trainer: { epochs: null, steps: 500 } })).toEqual({
    unit: "steps",
    value: 500,
  });
  expect(lengthOf({ search: { max_length: { epochs: null, seconds: 600 } }, trainer: { epochs: 3 } })).toEqual({
    unit: "seconds",
    value: 600,
  });
  expect(lengthOf({ search: { max_length: null }, trainer: null })).toBeNull();
});

test("a run outside of Muster can be closed, and says why it cannot be paused or stopped", () => {
  const outside = { ...base, unmanaged: "mlflow" };
  expect(offered(outside, ada)).toEqual(["close"]);
  expect(refused(outside, ada)).toEqual(["pause", "stop"]);
  expect(offered({ ...outside, state: "FAILED" }, ada)).toEqual(["archive", "delete"]);
  expect(refused({ ...outside, state: "FAILED" }, ada)).toEqual([]);
  expect(refused(base, ada)).toEqual([]);
  expect(offered(outside, { role: "member", username: "bob" })).toEqual([]);
});
