/** Checkpoints and what is exported of them. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { byCursor, get, type Schemas } from "../client";
import { allPages, PAGE } from "./pages";

export type Checkpoint = Schemas["CheckpointOut"];
export type CheckpointState = "local" | "complete" | "deleting" | "deleted";
export type CheckpointOrder = "newest" | "largest";
export type CheckpointListItem = Schemas["CheckpointListItem"];

/** Checkpoints of all trials, or of those of an experiment. */
export const checkpointList = (wanted: {
  experiment?: number;
  project?: string;
  state?: CheckpointState;
  order?: CheckpointOrder;
}) =>
  infiniteQueryOptions({
    queryKey: ["checkpoints", wanted],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/checkpoints", {
        params: {
          query: {
            experiment: wanted.experiment,
            project: wanted.project,
            state: wanted.state ? [wanted.state] : undefined,
            order: wanted.order,
            limit: PAGE,
            cursor: pageParam,
          },
        },
        signal,
      }),
    ...byCursor,
    placeholderData: keepPreviousData,
  });

export const trialCheckpoints = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["trial", id, "checkpoints"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/trials/{trial_id}/checkpoints", {
        params: { path: { trial_id: id }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

/** Exports of a trial's checkpoints, newest first. Asked again while one is being made. */
export const trialExports = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "exports"],
    queryFn: ({ signal }) =>
      allPages("checkpointExports", (cursor) =>
        get("/api/v1/trials/{trial_id}/exports", {
          params: { path: { trial_id: id }, query: { cursor, limit: 200 } },
          signal,
        }),
      ),
    refetchInterval: (query) => (query.state.data?.items.some((row) => row.state === "pending") ? 1000 : false),
  });

/** Steps with a checkpoint, for marks on charts: of the newest 200. */
export const trialCheckpointSteps = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "checkpoints", "steps"],
    queryFn: async ({ signal }) => {
      const page = await get("/api/v1/trials/{trial_id}/checkpoints", {
        params: { path: { trial_id: id }, query: { limit: 200 } },
        signal,
      });
      return { steps: page.items.map((item) => item.step), isCut: page.next !== null };
    },
  });
