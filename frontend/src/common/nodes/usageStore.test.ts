// @vitest-environment node
import { expect, test } from "vitest";

import type { TrialSystemMetrics } from "../../api/queries";
import { UsageStore } from "./usageStore";

const item = (node_name: string, attempt_no: number, series: Record<string, (number | null)[]>) => ({
  node_name,
  attempt_no,
  times: ["2026-01-01T00:00:00Z", "2026-01-01T00:00:15Z"],
  series,
});
const START = Date.parse("2026-01-01T00:00:00Z");

function shown(items: TrialSystemMetrics["items"], names: string[]): UsageStore {
  const store = new UsageStore();
  store.show({ node_names: names, shown: names, items, full_hours: 6, kept_days: 7 }, START, {});
  return store;
}

test("each GPU and interface of a node is a curve, and what carried nothing is none", () => {
  const store = shown(
    [
      item("n1", 1, {
        "gpu/0/use_pct": [1, 2],
        "gpu/1/use_pct": [null, 4],
        "gpu/1/throttled_pct/heat": [0, 100],
        "gpu/1/throttled_pct/board": [0, 0],
        "net/lo/sent_bytes_per_s": [0, null],
        "net/eth0/sent_bytes_per_s": [5, 6],
        cpu_pct: [50, 60],
      }),
    ],
    ["n1"],
  );
  expect(store.specs().map(({ id, group }) => [id, group])).toEqual([
    ["gpu/use_pct", "gpu"],
    ["gpu/throttled_pct", "gpu"],
    ["cpu/cpu_pct", "cpu"],
    ["network/sent_bytes_per_s", "network"],
  ]);
  const [first, second] = store.source(["gpu/use_pct"]).lines();
  expect([first?.label, [...(first?.columns.last ?? [])]]).toEqual(["0", [1, 2]]);
  expect([second?.label, [...(second?.columns.last ?? [])]]).toEqual(["1", [4]]);
  expect(
    store
      .source(["gpu/throttled_pct"])
      .lines()
      .map(({ label }) => label),
  ).toEqual(["1 heat"]);
  expect([...(second?.columns.timeMs ?? [])]).toEqual([START + 15_000]);
  expect(store.source(["cpu/cpu_pct"]).lines()[0]?.label).toBe("n1");
});

test("attempts of one node look alike and say which they are", () => {
  const store = shown(
    [item("n1", 1, { cpu_pct: [1, 2] }), item("n2", 2, { cpu_pct: [3, 4] }), item("n1", 2, { cpu_pct: [5, 6] })],
    ["n1", "n2"],
  );
  const lines = store.source(["cpu/cpu_pct"]).lines();
  expect(lines.map(({ label, color }) => [label, color])).toEqual([
    ["n1 (1)", 0],
    ["n2 (2)", 1],
    ["n1 (2)", 0],
  ]);
});

test("charts are told of an answer", () => {
  const store = shown([], ["n1"]);
  let told = 0;
  const end = store.source(["cpu/cpu_pct"]).subscribe(() => (told += 1));
  store.tell();
  end();
  store.tell();
  expect(told).toBe(1);
});
