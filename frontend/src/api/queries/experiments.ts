/** Experiments, their trials as a list, and searches. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { byCursor, client, get, type Schemas, unwrap } from "../client";
import { PAGE } from "./pages";

export type Experiment = Schemas["ExperimentOut"];
export type ExperimentDetail = Schemas["ExperimentDetail"];
export type ExperimentGroup = Schemas["ExperimentGroupOut"];
export type Preview = Schemas["PreviewOut"];
export type Search = Schemas["SearchOut"];
export type ExperimentState = "QUEUED" | "RUNNING" | "PAUSED" | "STOPPING" | "COMPLETED" | "FAILED" | "CANCELED";
export type TrialState = ExperimentState | "STARTING" | "RETRY_WAIT" | "STOPPED_EARLY";

export interface ExperimentFilter {
  state?: ExperimentState[];
  project?: string;
  q?: string;
  /** name=value, or the name alone for any value; all of them hold. */
  label?: string[];
  archived?: boolean;
  /** Conditions on columns: "metric.last.loss < 0.5". */
  where?: string[];
}

const filterQuery = (filter: ExperimentFilter) => ({
  state: filter.state,
  project: filter.project || undefined,
  q: filter.q || undefined,
  label: filter.label,
  archived: filter.archived ? ("include" as const) : undefined,
  where: filter.where,
});

/** The order of a list, and the columns whose values come with its rows. */
export interface TableShape {
  sort?: string;
  column?: string[];
}

export const experiments = (filter: ExperimentFilter, limit = PAGE, shape: TableShape = {}) =>
  infiniteQueryOptions({
    queryKey: ["experiments", filter, limit, shape],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/experiments", {
        params: {
          query: {
            ...filterQuery(filter),
            sort: shape.sort,
            column: shape.column,
            cursor: pageParam,
            // Who scrolls on reads longer pages.
            limit: pageParam === undefined ? limit : limit * 4,
          },
        },
        signal,
      }),
    ...byCursor,
    placeholderData: keepPreviousData,
  });

/** How many there are of a filter; beside the list, which does not wait for it. */
export const experimentCount = (filter: ExperimentFilter, enabled: boolean) =>
  queryOptions({
    queryKey: ["experiments", "count", filter],
    queryFn: async ({ signal }) => {
      const query = filterQuery(filter);
      return (await get("/api/v1/experiments:count", { params: { query }, signal })).num_experiments;
    },
    enabled,
    placeholderData: keepPreviousData,
  });

/** The experiments of a filter in groups by the value of a column, with statistics of others. */
export const experimentGroups = (filter: ExperimentFilter, by: string, column: string[]) =>
  queryOptions({
    queryKey: ["experiments", "groups", filter, by, column],
    queryFn: ({ signal }) => {
      const query = { ...filterQuery(filter), by, column: column.length > 0 ? column : undefined };
      return get("/api/v1/experiments:groups", { params: { query }, signal });
    },
    placeholderData: keepPreviousData,
  });

/** Columns that the newest experiments have values for. */
export const experimentColumns = (project?: string) =>
  queryOptions({
    queryKey: ["experiment-columns", project ?? null],
    queryFn: ({ signal }) => get("/api/v1/experiments:columns", { params: { query: { project } }, signal }),
    staleTime: 30_000,
  });

/** The JSON schema of the experiment document. */
export const documentSchema = queryOptions({
  queryKey: ["document-schema"],
  queryFn: ({ signal }) => get("/api/v1/experiments:schema", { signal }),
  staleTime: Infinity,
});

export const experiment = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id],
    queryFn: ({ signal }) =>
      get("/api/v1/experiments/{experiment_id}", {
        params: { path: { experiment_id: id } },
        signal,
      }),
  });

/** Experiments that were forked from it. */
export const experimentChildren = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["experiment", id, "children"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/experiments/{experiment_id}/children", {
        params: { path: { experiment_id: id }, query: { limit: 20, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

/** Exactly the experiments an operation would touch, and how; asked anew each time. */
export const bulkPreview = (body: Schemas["BulkIn"]) =>
  queryOptions({
    queryKey: ["bulk-preview", body],
    queryFn: ({ signal }) => unwrap(client.POST("/api/v1/experiments:bulk-preview", { body, signal })),
    gcTime: 0,
    retry: false,
  });

/** What deleting it would take away; asked anew each time the question is. */
export const deletionPlan = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "deletion"],
    queryFn: ({ signal }) =>
      get("/api/v1/experiments/{experiment_id}/deletion", { params: { path: { experiment_id: id } }, signal }),
    gcTime: 0,
  });

/** Whether it could be continued as it is: the one item of a preview. */
export const continuation = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "continuation"],
    queryFn: async ({ signal }) =>
      (
        await unwrap(
          client.POST("/api/v1/experiments:bulk-preview", {
            body: { action: "continue", ids: [id], keep_files: false, set_labels: {}, remove_labels: [] },
            signal,
          }),
        )
      ).items[0] ?? null,
    gcTime: 0,
  });

export interface TrialFilter {
  state?: TrialState[];
  sort?: string;
  /** Conditions on columns: "hparam.lr < 0.1". */
  where?: string[];
}

export const experimentTrials = (id: number, filter: TrialFilter, limit = PAGE) =>
  infiniteQueryOptions({
    queryKey: ["experiment", id, "trials", filter, limit],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/experiments/{experiment_id}/trials", {
        params: {
          path: { experiment_id: id },
          query: { state: filter.state, sort: filter.sort, where: filter.where, cursor: pageParam, limit },
        },
        signal,
      }),
    ...byCursor,
    placeholderData: keepPreviousData,
  });

/** The first trial that waits for slots; null: none does. */
export const firstWaiting = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "waits"],
    queryFn: async ({ signal }) =>
      (
        await get("/api/v1/experiments/{experiment_id}/trials", {
          params: { path: { experiment_id: id }, query: { state: ["QUEUED"], sort: "no", limit: 1 } },
          signal,
        })
      ).items[0] ?? null,
  });

export const experimentEvents = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["experiment", id, "events"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/experiments/{experiment_id}/events", {
        params: { path: { experiment_id: id }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

export const searchResults = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "search", "results"],
    queryFn: ({ signal }) =>
      get("/api/v1/experiments/{experiment_id}/search/results", {
        params: { path: { experiment_id: id } },
        signal,
      }),
  });

export const searchImportance = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "search", "importance"],
    queryFn: ({ signal }) =>
      get("/api/v1/experiments/{experiment_id}/search/importance", {
        params: { path: { experiment_id: id } },
        signal,
      }),
  });

export const experimentSearch = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "search"],
    queryFn: ({ signal }) =>
      get("/api/v1/experiments/{experiment_id}/search", {
        params: { path: { experiment_id: id } },
        signal,
      }),
  });
