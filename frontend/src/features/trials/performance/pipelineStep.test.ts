import { expect, test } from "vitest";

import { boxesOf, messagesOf, type PipelineStep } from "./pipelineStep";

const operation = (kind: string, stage: number, start_ms: number, end_ms: number) => ({
  kind,
  stage,
  micro_batch: 0,
  start_ms,
  end_ms,
});
const STEP: PipelineStep = {
  trial_id: 1,
  attempt_no: 1,
  num_pipelines: 1,
  pipeline: 0,
  step: 9,
  at: "2026-01-01T00:00:00Z",
  total_ms: 9,
  idle_share: 0.5,
  lanes: [
    {
      rank: 0,
      num_left_out: 0,
      error_ms: 0,
      operations: [
        operation("forward", 0, 1, 3),
        operation("send_forward", 0, 3, 3),
        operation("recv_backward", 0, 7, 8),
        operation("backward", 0, 8, 10),
      ],
    },
    {
      rank: 1,
      num_left_out: 0,
      error_ms: 0.1,
      operations: [
        operation("recv_forward", 1, 3.5, 4),
        operation("forward", 1, 4, 5),
        operation("backward_input", 1, 5, 7),
        operation("send_backward", 1, 7, 7),
      ],
    },
  ],
};

test("times begin with the first computing", () => {
  expect(boxesOf(STEP).map((box) => [box.lane, box.kind, box.startMs, box.endMs])).toEqual([
    [0, "forward", 0, 2],
    [0, "backward", 7, 9],
    [1, "forward", 3, 4],
    [1, "backward_input", 4, 6],
  ]);
});

test("a message goes from where it was sent to where it was received", () => {
  expect(messagesOf(STEP)).toEqual([
    { fromLane: 1, toLane: 0, startMs: 6, endMs: 7 },
    { fromLane: 0, toLane: 1, startMs: 2, endMs: 3 },
  ]);
});
