import { expect, test } from "vitest";

import type { BlockContent } from "../../api/queries";
import { sourceOfBlock } from "./blockSource";

const series = (name: string, mean: number[], at = 0) => ({
  name,
  rank: 0,
  attempts: [],
  raw: true,
  bucket_steps: 1,
  num_points: mean.length,
  num_steps: null,
  downsampled: false,
  step: mean.map((_, i) => i + 1),
  time_ms: mean.map((_, i) => at + 1000 * i),
  min: mean,
  max: mean,
  mean,
  last: mean,
  count: mean.map(() => 1),
});

function block(groups: (string | null)[], more: Partial<BlockContent> = {}): BlockContent {
  const metrics: Record<string, number> = { "train/loss": 2, "val/loss": 1 };
  return {
    kind: "chart",
    title: "",
    problem_parts: [],
    runs: groups.map((group, i) => ({
      trial_id: i + 1,
      trial_no: i + 1,
      experiment_id: 1,
      name: `run ${i + 1}`,
      group,
    })),
    curves: {
      items: groups.flatMap((_, i) =>
        Object.entries(metrics).map(([name, factor]) => ({
          trial_id: i + 1,
          trial_no: i + 1,
          experiment_id: 1,
          start_ms: 1000 * i,
          series: series(name, [factor * (i + 1), factor * (i + 2)], 1000 * i),
          x: null,
        })),
      ),
      max_points: 300,
      num_matching: 2 * groups.length,
      missing: [],
    },
    expressions: ["train/loss"],
    x: "step",
    log: false,
    smoothing: 0,
    table: null,
    media: null,
    num_left_out: 0,
    ...more,
  };
}

test("without groups each run is a line of its own", () => {
  const lines = sourceOfBlock(block([null, null])).lines();
  expect(lines.map(({ label }) => label)).toEqual(["run 1", "run 2"]);
  expect(lines.map(({ columns }) => [...columns.mean])).toEqual([
    [2, 4],
    [4, 6],
  ]);
});

test("runs of a group are their mean, with a band from the least to the greatest", () => {
  const lines = sourceOfBlock(block(["lr=1", "lr=2", "lr=1"])).lines();
  expect(lines.map(({ label, band }) => [label, band])).toEqual([
    ["lr=1 (n=2)", true],
    ["lr=2 (n=1)", false],
  ]);
  expect([...(lines[0]?.columns.mean ?? [])]).toEqual([4, 6]);
  expect([...(lines[0]?.columns.min ?? [])]).toEqual([2, 4]);
  expect([...(lines[0]?.columns.max ?? [])]).toEqual([6, 8]);
});

test("over relative time the runs of a group begin together", () => {
  const [line] = sourceOfBlock(block(["a", "a"], { x: "relative" })).lines();
  expect([...(line?.columns.timeMs ?? [])]).toEqual([0, 1000]);
});

test("expressions are computed of the metrics that were loaded", () => {
  const [line] = sourceOfBlock(block([null], { expressions: ["train/loss - val/loss"] })).lines();
  expect([...(line?.columns.mean ?? [])]).toEqual([1, 2]);
});
