import { expect, test } from "vitest";

import { pathOf, rowsOf } from "./systemRows";

const data = (series: Record<string, (number | null)[]>) => ({
  node_id: "n",
  node_name: "n",
  times: [],
  series,
  gpu_problem: "",
  ranks: [],
});

test("rows come in order, with scales of their own, and gaps stay gaps", () => {
  const rows = rowsOf(
    data({
      "gpu/10/power_w": [null, 300],
      "gpu/2/use_pct": [0, null],
      "gpu/2/clock_mhz": [1980, 1200],
      "gpu/2/max_clock_mhz": [2000, 2000],
      "gpu/2/throttled_pct/heat": [0, 100],
      "gpu/2/throttled_pct/board": [0, 0],
      "net/lo/sent_bytes_per_s": [0, 0],
      "net/lo/received_bytes_per_s": [0, null],
      "net/eth0/sent_bytes_per_s": [1, 4],
      "net/eth0/received_bytes_per_s": [2, 2],
      memory_used_bytes: [5, 6],
      memory_total_bytes: [8, 8],
      cpu_pct: [40, 20],
    }),
  );
  expect(rows.map((r) => [r.label, r.of, r.index, r.last, r.most, r.top])).toEqual([
    ["cpu_pct", "", null, 20, 40, 100],
    ["memory_used_bytes", "", null, 6, 6, 8],
    ["sent", "eth0", null, 4, 4, 4],
    ["received", "eth0", null, 2, 2, 2],
    ["gpuUse", "", 2, null, 0, 100],
    ["gpuClock", "", 2, 1200, 1980, 2000],
    ["throttled_heat", "", 2, 100, 100, 100],
    ["gpuPower", "", 10, 300, 300, 300],
  ]);
});

test("without samples there is nothing to show", () => {
  expect(rowsOf(data({}))).toEqual([]);
});

test("a line lies where its hour was, and is not drawn over what nobody heard", () => {
  const now = 10_000_000;
  const times = [now - 1_800_000, now - 1_785_000, now - 15_000, now];
  const box = { now, top: 100, width: 200, height: 12 };
  expect(pathOf([100, 0, 50, 50], times, box)).toBe("M100.0 1.0L100.8 11.0M199.2 6.0L200.0 6.0");
  expect(pathOf([100, null, 50, 50], [now - 3_600_001, ...times.slice(1)], box)).toBe("M199.2 6.0L200.0 6.0");
});
