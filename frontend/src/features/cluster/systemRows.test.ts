import { expect, test } from "vitest";

import { rowsOf } from "./systemRows";

const data = (series: Record<string, (number | null)[]>) => ({ node_id: "n", node_name: "n", times: [], series, gpu_problem: "", ranks: [] });

test("rows come in order, with scales of their own, and gaps stay gaps", () => {
  const rows = rowsOf(
    data({
      "gpu/10/power_w": [null, 300],
      "gpu/2/use_pct": [0, null],
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
    ["gpuPower", "", 10, 300, 300, 300],
  ]);
});

test("without samples there is nothing to show", () => {
  expect(rowsOf(data({}))).toEqual([]);
});
