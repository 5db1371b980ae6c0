import { expect, test } from "vitest";

import type { Cluster, Experiment, Node } from "../../api/queries";
import { attention } from "./attention";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const at = (minutesAgo: number): string => new Date(NOW - minutesAgo * 60_000).toISOString();

const cluster = (change: Partial<Cluster>): Cluster =>
  ({ impossible: [], num_impossible: 0, stuck: [], num_stuck: 0, oldest_queued_at: null, ...change }) as Cluster;
const node = (change: Partial<Node>): Node =>
  ({ id: "n1", name: "n1", state: "ONLINE", health: "ok", health_reason: "", last_seen_at: at(5), ...change }) as Node;
const failed = (endedAgo: number): Experiment =>
  ({
    id: 7,
    name: "x",
    state: "FAILED",
    only_trial_id: 9,
    reason: "why",
    ended_at: at(endedAgo),
    non_finite_metric: null,
    standstill: null,
    is_quiet: false,
  }) as Experiment;

const kinds = (...given: Parameters<typeof attention>) => attention(...given).map(({ kind, to }) => [kind, to]);

test("nothing needs anybody while all is well", () => {
  expect(attention(cluster({}), [node({})], [], NOW)).toEqual([]);
  expect(attention(undefined, [], [], NOW)).toEqual([]);
});

test("failures and lost nodes come before what is only slow", () => {
  const stuck = {
    trial_id: 3,
    trial_no: 2,
    experiment_id: 1,
    experiment_name: "s",
    stuck_at: at(10),
    moved_at: at(20),
  };
  const state = cluster({ stuck: [stuck], num_stuck: 4, oldest_queued_at: at(45) });
  expect(kinds(state, [node({ state: "LOST" })], [failed(60)], NOW)).toEqual([
    ["node", "/nodes/n1"],
    ["failed", "/trials/9"],
    ["stuck", "/trials/3"],
    ["moreStuck", "/experiments"],
    ["wait", "/queue"],
  ]);
});

test("a failure of yesterday is history", () => {
  expect(attention(undefined, [], [failed(25 * 60)], NOW)).toEqual([]);
});

test("the same problem at another time has another key, and keys are ones that the server takes", () => {
  const keys = [
    ...attention(undefined, [], [failed(60)], NOW),
    ...attention(undefined, [], [failed(30)], NOW),
    ...attention(undefined, [node({ health: "degraded", health_reason: "disk: full" })], [], NOW),
    ...attention(undefined, [node({ health: "degraded", health_reason: "clock: ahead" })], [], NOW),
    ...attention(undefined, [node({ state: "SUSPECT", last_seen_at: at(3) })], [], NOW),
    ...attention(undefined, [node({ state: "SUSPECT", last_seen_at: at(2) })], [], NOW),
  ].map(({ key }) => key);
  expect(new Set(keys).size).toBe(6);
  for (const key of keys) expect(key).toMatch(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,119}$/);
  const again = attention(undefined, [], [failed(60)], NOW + 5000);
  expect(again.map(({ key }) => key)).toEqual([keys[0]]);
});
