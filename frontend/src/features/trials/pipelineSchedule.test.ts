import { describe, expect, it, test } from "vitest";

import { type DrawnSchedule, isDrawn, shapeOf, type Timeline, timeline } from "./pipelineSchedule";

const drawn = (...asked: Parameters<typeof timeline>): Timeline => {
  const found = timeline(...asked);
  if (found === null) throw new Error("nothing is drawn");
  return found;
};
const even = (workers: number, forwardMs: number, backwardMs: number) => Array.from({ length: workers }, () => ({ forwardMs, backwardMs }));

test.each<[DrawnSchedule, number, number]>([
  ["gpipe", 2, 1],
  ["gpipe", 4, 2],
  ["1f1b", 2, 1],
  ["1f1b", 4, 1],
  ["1f1b", 4, 3],
])("%s of %i even workers idles as the papers say", (schedule, workers, accumulate) => {
  const found = drawn(schedule, even(workers, 10, 20), accumulate);
  const { micros } = shapeOf(schedule, workers, accumulate);
  // GPipe (Huang et al. 2019): (workers - 1) / (micros + workers - 1) of the time.
  expect(found.idleShare).toBeCloseTo((workers - 1) / (micros + workers - 1), 9);
  expect(found.totalMs).toBeCloseTo((30 / micros) * (micros + workers - 1), 9);
});

test.each([
  [2, 1],
  [4, 1],
  [4, 2],
])("an interleaved pipeline of %i workers, accumulate %i, idles less than 1f1b", (workers, accumulate) => {
  const times = even(workers, 10, 20);
  const one = drawn("1f1b", times, accumulate);
  const two = drawn("interleaved", times, accumulate);
  expect(two.idleShare).toBeLessThan(one.idleShare);
});

it("lets one worker of a naive pipeline compute at a time", () => {
  const found = drawn("naive", even(3, 3, 6), 4);
  expect(found.boxes).toHaveLength(6);
  expect(found.totalMs).toBeCloseTo(27, 9);
  expect(found.idleShare).toBeCloseTo(2 / 3, 9);
});

describe.each<DrawnSchedule>(["naive", "gpipe", "1f1b", "interleaved"])("%s", (schedule) => {
  it.each([1, 2, 3, 5])("does every task once, none before what it needs, none beside another of its worker (accumulate %i)", (accumulate) => {
    const workers = 4;
    const times = [7, 1, 12, 3].map((ms) => ({ forwardMs: ms, backwardMs: 2 * ms }));
    const { boxes } = drawn(schedule, times, accumulate);
    const { micros, stagesPerWorker } = shapeOf(schedule, workers, accumulate);
    expect(new Set(boxes.map((b) => `${b.kind} ${b.stage} ${b.micro}`)).size).toBe(workers * stagesPerWorker * micros * 2);
    const end = (kind: string, stage: number, micro: number): number => boxes.find((b) => b.kind === kind && b.stage === stage && b.micro === micro)?.endMs ?? Number.NaN;
    const last = workers * stagesPerWorker - 1;
    for (const box of boxes) {
      expect(box.stage % workers).toBe(box.worker);
      if (box.kind === "forward" && box.stage > 0) expect(box.startMs).toBeGreaterThanOrEqual(end("forward", box.stage - 1, box.micro));
      if (box.kind === "backward") expect(box.startMs).toBeGreaterThanOrEqual(box.stage === last ? end("forward", last, box.micro) : end("backward", box.stage + 1, box.micro));
    }
    for (let worker = 0; worker < workers; worker++) {
      const own = boxes.filter((b) => b.worker === worker).toSorted((a, b) => a.startMs - b.startMs);
      own.slice(1).forEach((box, i) => expect(box.startMs).toBeGreaterThanOrEqual((own[i]?.endMs ?? Number.NaN) - 1e-9));
    }
  });
});

it("draws no more than can be told apart, and nothing where nothing was measured", () => {
  expect(timeline("1f1b", even(8, 1, 1), 100)).toBeNull();
  expect(timeline("1f1b", even(2, 0, 0), 1)).toBeNull();
  expect(timeline("1f1b", [], 1)).toBeNull();
  expect(isDrawn("zero_bubble")).toBe(false);
});
