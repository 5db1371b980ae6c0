import { expect, test } from "vitest";

import type { Cluster, Node } from "../../api/queries";
import { actionsOf, attention } from "./attention";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const at = (minutesAgo: number): string => new Date(NOW - minutesAgo * 60_000).toISOString();

const cluster = (change: Partial<Cluster>): Cluster =>
  ({
    failures: [],
    num_failures: 0,
    impossible: [],
    num_impossible: 0,
    stuck: [],
    num_stuck: 0,
    warnings: [],
    num_warnings: 0,
    oldest_queued_at: null,
    ...change,
  }) as Cluster;
const node = (change: Partial<Node>): Node =>
  ({ id: "n1", name: "n1", state: "ONLINE", health: "ok", health_reason: "", last_seen_at: at(5), ...change }) as Node;
const failures = (endedAgo: number, count = 1): Partial<Cluster> => ({
  failures: [{ reason: "why", count, experiment_id: 7, experiment_name: "x", ended_at: at(endedAgo) }],
  num_failures: count,
});

const kinds = (...given: Parameters<typeof attention>) => attention(...given).map(({ kind, to }) => [kind, to]);

test("nothing needs anybody while all is well", () => {
  expect(attention(cluster({}), [node({})], NOW)).toEqual([]);
  expect(attention(undefined, [], NOW)).toEqual([]);
});

test("the cluster comes first, then what can never start, what is stuck, and what has failed; each by time", () => {
  const stuck = {
    trial_id: 3,
    trial_no: 2,
    experiment_id: 1,
    experiment_name: "s",
    stuck_at: at(10),
    moved_at: at(20),
  };
  const impossible = (id: number, minutesAgo: number) =>
    ({ trial_id: id, waiting_since: at(minutesAgo) }) as Cluster["impossible"][number];
  const state = cluster({
    ...failures(1),
    stuck: [stuck],
    num_stuck: 4,
    oldest_queued_at: at(45),
    impossible: [impossible(4, 50), impossible(5, 40)],
    num_impossible: 2,
  });
  expect(kinds(state, [node({ state: "LOST" })], NOW)).toEqual([
    ["node", "/nodes/n1"],
    ["impossible", "/trials/5"],
    ["impossible", "/trials/4"],
    ["stuck", "/trials/3"],
    ["wait", "/queue"],
    ["moreStuck", "/experiments"],
    ["failed", "/experiments/7"],
  ]);
});

test("what diverges or stands still is named, with how many more there are", () => {
  const run = { experiment_name: "x", only_trial_id: null, non_finite_metric: null, standstill: null };
  const state = cluster({
    warnings: [
      { ...run, experiment_id: 9, only_trial_id: 4, non_finite_metric: "loss" },
      { ...run, experiment_id: 2, standstill: { text: "why", parts: [] } },
    ],
    num_warnings: 5,
  });
  expect(attention(state, [], NOW).map(({ kind, to, detail, count }) => [kind, to, detail, count])).toEqual([
    ["diverged", "/trials/4", "loss", undefined],
    ["still", "/experiments/2", "why", undefined],
    ["moreWarnings", "/experiments", "", 3],
  ]);
});

test("every line ends in what mends it", () => {
  const impossible = (code: string) =>
    ({ trial_id: 4, experiment_id: 9, waiting_since: at(5), pending_parts: [{ code, params: {} }] }) as unknown;
  const state = cluster({
    ...failures(1),
    impossible: [impossible("pending.too_few"), impossible("pending.indivisible")] as Cluster["impossible"],
    num_impossible: 3,
    stuck: [{ trial_id: 3, trial_no: 2, stuck_at: at(1), moved_at: at(2) }] as Cluster["stuck"],
    num_stuck: 2,
    warnings: [
      { experiment_id: 2, only_trial_id: null, non_finite_metric: null, standstill: { text: "why", parts: [] } },
      { experiment_id: 5, only_trial_id: 8, non_finite_metric: "loss", standstill: null },
    ] as unknown as Cluster["warnings"],
    num_warnings: 3,
    num_failures: 2,
    oldest_queued_at: at(45),
  });
  const items = attention(state, [node({ state: "LOST" }), node({ health: "degraded" })], NOW);
  const found = items.map((item) => [item.kind, ...actionsOf(item).map(({ name, to }) => `${name} ${to}`)]);
  expect(found.toSorted()).toEqual([
    ["diverged", "showMetrics /trials/8"],
    ["failed", "showFailure /experiments/7"],
    ["health", "showNode /nodes/n1"],
    ["impossible", "changeCopy /submit"],
    ["impossible", "changeCopy /submit", "addNode /nodes/add"],
    ["moreFailed", "showList /experiments"],
    ["moreImpossible", "showQueue /queue"],
    ["moreStuck", "showList /experiments"],
    ["moreWarnings", "showList /experiments"],
    ["node", "showNode /nodes/n1"],
    ["still", "stopAndContinue /experiments/2"],
    ["stuck", "showRanks /trials/3"],
    ["wait", "showQueue /queue"],
  ]);
});

test("nodes with the same problem are one entry with their number, others stay by themselves", () => {
  const nodes = [
    node({ id: "n1", name: "n1", health: "degraded", health_reason: "the disk is full" }),
    node({ id: "n2", name: "n2", health: "degraded", health_reason: "the disk is full" }),
    node({ id: "n3", name: "n3", health: "degraded", health_reason: "the clock is ahead" }),
    node({ id: "n4", name: "n4", state: "LOST", last_seen_at: at(3) }),
    node({ id: "n5", name: "n5", state: "LOST", last_seen_at: at(9) }),
    node({ id: "n6", name: "n6", state: "SUSPECT", last_seen_at: at(1) }),
  ];
  const found = attention(undefined, nodes, NOW);
  expect(found.map(({ kind, count, to, name, tone }) => [kind, count, to, name, tone]).toSorted()).toEqual([
    ["health", undefined, "/nodes/n3", "n3", "warn"],
    ["healths", 2, "/nodes", "n1", "warn"],
    ["node", undefined, "/nodes/n6", "n6", "warn"],
    ["nodes", 2, "/nodes", "n4", "bad"],
  ]);
  // One more with it is another occurrence.
  const fewer = attention(undefined, nodes.slice(0, 2), NOW).map(({ key }) => key);
  const more = attention(
    undefined,
    [...nodes.slice(0, 2), node({ id: "n9", name: "n9", health: "degraded", health_reason: "the disk is full" })],
    NOW,
  );
  expect(more.map(({ key }) => key)).not.toEqual(fewer);
});

test("failures for one reason are one entry with their number, and none goes uncounted", () => {
  const state = cluster({ ...failures(5, 24), num_failures: 29 });
  expect(attention(state, [], NOW).map(({ kind, count, search }) => [kind, count, search])).toEqual([
    ["failures", 24, { state: "FAILED" }],
    ["moreFailed", 5, { state: "FAILED" }],
  ]);
});

test("the same problem at another time has another key, and keys are ones that the server takes", () => {
  const keys = [
    ...attention(cluster(failures(60)), [], NOW),
    ...attention(cluster(failures(30)), [], NOW),
    ...attention(undefined, [node({ health: "degraded", health_reason: "disk: full" })], NOW),
    ...attention(undefined, [node({ health: "degraded", health_reason: "clock: ahead" })], NOW),
    ...attention(undefined, [node({ state: "SUSPECT", last_seen_at: at(3) })], NOW),
    ...attention(undefined, [node({ state: "SUSPECT", last_seen_at: at(2) })], NOW),
  ].map(({ key }) => key);
  expect(new Set(keys).size).toBe(6);
  for (const key of keys) expect(key).toMatch(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,119}$/);
  const again = attention(cluster(failures(60)), [], NOW + 5000);
  expect(again.map(({ key }) => key)).toEqual([keys[0]]);
});
