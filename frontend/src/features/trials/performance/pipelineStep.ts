/** A noted step of a pipeline as boxes and lines. Pure, but for the query. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../../../api/client";
import type { components } from "../../../api/schema.gen";

export type PipelineStep = components["schemas"]["PipelineStepOut"];

export const COMPUTING = ["forward", "backward", "backward_input", "backward_weight"] as const;
export type Computing = (typeof COMPUTING)[number];

export interface Box {
  /** Index of the lane. */
  lane: number;
  stage: number;
  kind: Computing;
  micro: number;
  startMs: number;
  endMs: number;
}

/** From the beginning of sending until it was received. */
export interface Message {
  fromLane: number;
  toLane: number;
  startMs: number;
  endMs: number;
}

/** Not with the trial's other queries, like its performance. */
export const pipelineStep = (id: number, pipeline: number, running: boolean) =>
  queryOptions({
    queryKey: ["trial-pipeline-step", id, pipeline],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/trials/{trial_id}/pipeline-step", {
          params: { path: { trial_id: id }, query: { pipeline } },
          signal,
        }),
      ),
    refetchInterval: running ? 10_000 : false,
    placeholderData: keepPreviousData,
  });

/** What was computed, from the first computing on. */
export function boxesOf(step: PipelineStep): Box[] {
  const began = beganMs(step);
  return step.lanes.flatMap((lane, index) =>
    lane.operations.flatMap((done) =>
      isComputing(done.kind)
        ? [
            {
              lane: index,
              stage: done.stage,
              kind: done.kind,
              micro: done.micro_batch,
              startMs: done.start_ms - began,
              endMs: done.end_ms - began,
            },
          ]
        : [],
    ),
  );
}

/** Messages whose both ends were noted. */
export function messagesOf(step: PipelineStep): Message[] {
  const began = beganMs(step);
  const sent = new Map<string, { lane: number; ms: number }>();
  for (const [lane, { operations }] of step.lanes.entries())
    for (const done of operations)
      if (done.kind.startsWith("send_"))
        sent.set(`${done.kind.slice(5)} ${done.stage} ${done.micro_batch}`, { lane, ms: done.start_ms });
  return step.lanes.flatMap(({ operations }, toLane) =>
    operations.flatMap((done) => {
      if (!done.kind.startsWith("recv_")) return [];
      const way = done.kind.slice(5);
      const from = sent.get(`${way} ${done.stage + (way === "forward" ? -1 : 1)} ${done.micro_batch}`);
      return from === undefined
        ? []
        : [{ fromLane: from.lane, toLane, startMs: from.ms - began, endMs: done.end_ms - began }];
    }),
  );
}

const isComputing = (kind: string): kind is Computing => (COMPUTING as readonly string[]).includes(kind);

function beganMs(step: PipelineStep): number {
  return step.lanes.reduce(
    (least, lane) =>
      lane.operations.reduce(
        (before, done) => (isComputing(done.kind) ? Math.min(before, done.start_ms) : before),
        least,
      ),
    Infinity,
  );
}
