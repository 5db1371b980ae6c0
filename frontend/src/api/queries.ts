/** What the pages read: one factory per resource. Keys begin with the resource, so that a live hint
 * can refresh a family (["trial", 57] covers its workers, checkpoints and events). */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { client, type Schemas, unwrap } from "./client";

export type Cluster = Schemas["ClusterOut"];
export type Node = Schemas["NodeOut"];
export type Slot = Schemas["SlotOut"];
export type Experiment = Schemas["ExperimentOut"];
export type ExperimentDetail = Schemas["ExperimentDetail"];
export type Trial = Schemas["TrialOut"];
export type TrialDetail = Schemas["TrialDetail"];
export type Worker = Schemas["WorkerOut"];
export type Checkpoint = Schemas["CheckpointOut"];
export type EventItem = Schemas["EventOut"];
export type Me = Schemas["MeOut"];
export type Preview = Schemas["PreviewOut"];
export type QueueItem = Schemas["QueueItem"];
export type QueueMove = Schemas["QueueMove"];
export type Project = Schemas["ProjectOut"];
export type Pool = Schemas["PoolOut"];
export type Search = Schemas["SearchOut"];
export type NodeAllocation = Schemas["NodeAllocationOut"];
export type Preflight = Schemas["PreflightOut"];
export type TrialPerformance = Schemas["PerformanceOut"];
export type TrialProgress = Schemas["ProgressOut"];
export type SystemMetrics = Schemas["SystemMetricsOut"];
export type Diagnosis = Schemas["DiagnosisOut"];
export type TrialStacks = Schemas["StacksOut"];
export type TrialPlan = Schemas["TrialPlanOut"];
export type ProfileWindow = Schemas["ProfileOut"];
export type RankSteps = Schemas["RankStepsOut"];

export type Retention = Schemas["RetentionOut"];

export const PAGE = 50;

export type ExperimentState = "QUEUED" | "RUNNING" | "PAUSED" | "STOPPING" | "COMPLETED" | "FAILED" | "CANCELED";
export type TrialState = ExperimentState | "STARTING" | "RETRY_WAIT" | "STOPPED_EARLY";

interface PageOf<T> {
  items: T[];
  next: string | null;
}

/** Every page up to `max` items, for things a page shows whole (nodes, ranks). */
async function allPages<T>(read: (cursor: string | undefined) => Promise<PageOf<T>>, max = 5000): Promise<PageOf<T>> {
  const items: T[] = [];
  let next: string | null = null;
  do {
    const page: PageOf<T> = await read(next ?? undefined);
    items.push(...page.items);
    next = page.next;
  } while (next !== null && items.length < max);
  return { items, next };
}

export const authState = queryOptions({
  queryKey: ["auth-state"],
  queryFn: () => unwrap(client.GET("/api/v1/auth/state")),
  staleTime: 60_000,
});

export const me = queryOptions({
  queryKey: ["me"],
  queryFn: () => unwrap(client.GET("/api/v1/auth/me")),
  staleTime: 5 * 60_000,
  retry: false,
});

export const cluster = queryOptions({
  queryKey: ["cluster"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/cluster", { signal })),
});

/** Every node: pages of 200 until the end (a cluster page shows all of them). */
export const nodes = queryOptions({
  queryKey: ["nodes"],
  queryFn: async ({ signal }) =>
    (
      await allPages((cursor) =>
        unwrap(client.GET("/api/v1/nodes", { params: { query: { limit: 200, cursor } }, signal })),
      )
    ).items,
});

export const node = (nodeId: string) =>
  queryOptions({
    queryKey: ["nodes", nodeId],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/nodes/{node_id}", { params: { path: { node_id: nodeId } }, signal })),
  });

export const nodeAllocations = (nodeId: string) =>
  infiniteQueryOptions({
    queryKey: ["nodes", nodeId, "allocations"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/nodes/{node_id}/allocations", {
          params: { path: { node_id: nodeId }, query: { limit: 20, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next ?? undefined,
  });

/** One preflight; asked for again until it has ended. */
export const preflight = (preflightId: string) =>
  queryOptions({
    queryKey: ["preflights", preflightId],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/preflights/{preflight_id}", { params: { path: { preflight_id: Number(preflightId) } }, signal })),
    refetchInterval: (query) => (query.state.data?.state === "running" ? 1_000 : false),
  });

/** The latest preflights. */
export const preflights = queryOptions({
  queryKey: ["preflights"],
  queryFn: async ({ signal }) => (await unwrap(client.GET("/api/v1/preflights", { params: { query: { limit: 5 } }, signal }))).items,
});

export const nodeEvents = (nodeId: string) =>
  infiniteQueryOptions({
    queryKey: ["nodes", nodeId, "events"],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/nodes/{node_id}/events", {
          params: { path: { node_id: nodeId }, query: { limit: PAGE, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const queue = (project?: string) =>
  infiniteQueryOptions({
    queryKey: ["queue", project ?? null],
    queryFn: ({ signal, pageParam }) =>
      unwrap(client.GET("/api/v1/queue", { params: { query: { project, limit: 100, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });

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

/** The order of a list, and the columns whose values come with its rows. */
export interface TableShape {
  sort?: string;
  column?: string[];
}

export const experiments = (filter: ExperimentFilter, limit = PAGE, shape: TableShape = {}) =>
  infiniteQueryOptions({
    queryKey: ["experiments", filter, limit, shape],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/experiments", {
          params: {
            query: {
              state: filter.state,
              project: filter.project || undefined,
              q: filter.q || undefined,
              label: filter.label,
              archived: filter.archived ? "include" : undefined,
              where: filter.where,
              sort: shape.sort,
              column: shape.column,
              cursor: pageParam,
              // Who scrolls on reads longer pages.
              limit: pageParam === undefined ? limit : limit * 4,
            },
          },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });

/** Columns that the newest experiments have values for. */
export const experimentColumns = (project?: string) =>
  queryOptions({
    queryKey: ["experiment-columns", project ?? null],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/experiments:columns", { params: { query: { project } }, signal })),
    staleTime: 30_000,
  });

export type SavedView = Schemas["SavedViewOut"];

/** One's own views and the shared ones. */
export const savedViews = queryOptions({
  queryKey: ["views"],
  queryFn: async ({ signal }) => (await allPages((cursor) => unwrap(client.GET("/api/v1/views", { params: { query: { cursor, limit: 200 } }, signal })))).items,
  staleTime: 60_000,
});

export const experiment = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}", {
          params: { path: { experiment_id: id } },
          signal,
        }),
      ),
  });

/** Experiments that were forked from it. */
export const experimentChildren = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["experiment", id, "children"],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/children", {
          params: { path: { experiment_id: id }, query: { limit: 20, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
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
      unwrap(client.GET("/api/v1/experiments/{experiment_id}/deletion", { params: { path: { experiment_id: id } }, signal })),
    gcTime: 0,
  });

/** Whether it could be continued as it is: the one item of a preview. */
export const continuation = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "continuation"],
    queryFn: async ({ signal }) =>
      (await unwrap(client.POST("/api/v1/experiments:bulk-preview", { body: { action: "continue", ids: [id], keep_files: false, set_labels: {}, remove_labels: [] }, signal }))).items[0] ?? null,
    gcTime: 0,
  });

export interface TrialFilter {
  state?: TrialState[];
  sort?: "no" | "-no" | "metric" | "-metric";
}

export const experimentTrials = (id: number, filter: TrialFilter, limit = PAGE) =>
  infiniteQueryOptions({
    queryKey: ["experiment", id, "trials", filter, limit],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/trials", {
          params: {
            path: { experiment_id: id },
            query: { state: filter.state, sort: filter.sort, cursor: pageParam, limit },
          },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });

export const experimentEvents = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["experiment", id, "events"],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/events", {
          params: { path: { experiment_id: id }, query: { limit: PAGE, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const searchResults = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "search", "results"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/experiments/{experiment_id}/search/results", { params: { path: { experiment_id: id } }, signal })),
  });

export const searchImportance = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "search", "importance"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/experiments/{experiment_id}/search/importance", { params: { path: { experiment_id: id } }, signal })),
  });

export const experimentSearch = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "search"],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/search", {
          params: { path: { experiment_id: id } },
          signal,
        }),
      ),
  });

/** summary: all metrics, or those that the head of its page needs; a trial may have thousands. */
const aTrial = (id: number, summary: "all" | "headline") =>
  queryOptions({
    queryKey: summary === "all" ? ["trial", id, "whole"] : ["trial", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/trials/{trial_id}", { params: { path: { trial_id: id }, query: { summary } }, signal })),
  });

export const trial = (id: number) => aTrial(id, "headline");
export const wholeTrial = (id: number) => aTrial(id, "all");

export const trialWorkers = (id: number, attempt?: number) =>
  queryOptions({
    queryKey: ["trial", id, "workers", attempt ?? null],
    queryFn: ({ signal }) =>
      allPages((cursor) =>
        unwrap(
          client.GET("/api/v1/trials/{trial_id}/workers", {
            params: { path: { trial_id: id }, query: { attempt, cursor, limit: 200 } },
            signal,
          }),
        ),
      ),
    placeholderData: keepPreviousData,
  });

/** Not with the trial's other queries: it reads the newest rows of every rank, so it is asked for every
 * few seconds and not at each hint. */
export const trialPerformance = (id: number, running: boolean, attempt?: number) =>
  queryOptions({
    queryKey: ["trial-performance", id, attempt ?? null],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/trials/{trial_id}/performance", { params: { path: { trial_id: id }, query: { attempt } }, signal })),
    refetchInterval: running ? 5000 : false,
    placeholderData: keepPreviousData,
  });

/** Its diagnoses, the newest first; asked for again while one runs, or while an advice is tried. */
export const trialDiagnoses = (id: number) =>
  queryOptions({
    queryKey: ["trial-diagnoses", id],
    queryFn: async ({ signal }) => (await unwrap(client.GET("/api/v1/trials/{trial_id}/diagnoses", { params: { path: { trial_id: id } }, signal }))).items,
    refetchInterval: (query) => {
      const all = query.state.data ?? [];
      if (all.some((one) => one.state === "running")) return 2_000;
      return all.some((one) => one.advice.some((advice) => advice.applied.some((a) => a.state === "QUEUED" || a.state === "RUNNING"))) ? 5_000 : false;
    },
  });

/** How far its ranks are. Asked for every few seconds while it runs: what matters is what does not change. */
export const trialProgress = (id: number, running: boolean) =>
  queryOptions({
    queryKey: ["trial-progress", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/trials/{trial_id}/progress", { params: { path: { trial_id: id } }, signal })),
    refetchInterval: running ? 5000 : false,
  });

/** By a node's id or name, over the last hour. */
export const systemMetrics = (node: string) =>
  queryOptions({
    queryKey: ["system-metrics", node],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/nodes/{node_id}/system-metrics", { params: { path: { node_id: node } }, signal })),
    refetchInterval: 15_000,
  });

export const trialStacks = (id: number, running: boolean) =>
  queryOptions({
    queryKey: ["trial", id, "stacks"],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/trials/{trial_id}/stacks", { params: { path: { trial_id: id } }, signal })),
    refetchInterval: (query) => {
      const data = query.state.data;
      return running && data && data.no > 0 && data.ranks.length < data.num_expected ? 1000 : false;
    },
  });

export const trialPlan = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "plan"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/trials/{trial_id}/plan", { params: { path: { trial_id: id } }, signal })),
    staleTime: 60_000,
  });

export const trialProfiles = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "profiles"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/trials/{trial_id}/profiles", { params: { path: { trial_id: id } }, signal })),
    refetchInterval: (query) => (query.state.data?.items.some((w) => !w.is_complete) ? 1000 : false),
  });

export const trialGroups = (id: number, attempt?: number) =>
  queryOptions({
    queryKey: ["trial", id, "groups", attempt ?? null],
    queryFn: ({ signal }) =>
      allPages((cursor) =>
        unwrap(
          client.GET("/api/v1/trials/{trial_id}/groups", {
            params: { path: { trial_id: id }, query: { attempt, cursor, limit: 200 } },
            signal,
          }),
        ),
      ),
  });

export const trialCheckpoints = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["trial", id, "checkpoints"],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/trials/{trial_id}/checkpoints", {
          params: { path: { trial_id: id }, query: { limit: PAGE, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export type CheckpointState = "complete" | "deleting" | "deleted";
export type CheckpointOrder = "newest" | "largest";
export type CheckpointListItem = Schemas["CheckpointListItem"];

/** Checkpoints of all trials, or of those of an experiment. */
export const checkpointList = (wanted: { experiment?: number; project?: string; state?: CheckpointState; order?: CheckpointOrder }) =>
  infiniteQueryOptions({
    queryKey: ["checkpoints", wanted],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/checkpoints", {
          params: { query: { experiment: wanted.experiment, project: wanted.project, state: wanted.state ? [wanted.state] : undefined, order: wanted.order, limit: PAGE, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });

/** Exports of a trial's checkpoints, newest first. Asked again while one is being made. */
export const trialExports = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "exports"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/trials/{trial_id}/exports", { params: { path: { trial_id: id }, query: { limit: PAGE } }, signal })),
    refetchInterval: (query) => (query.state.data?.items.some((row) => row.state === "pending") ? 1000 : false),
  });

/** Steps with a checkpoint, for marks on charts: of the newest 200. */
export const trialCheckpointSteps = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "checkpoints", "steps"],
    queryFn: async ({ signal }) => {
      const page = await unwrap(client.GET("/api/v1/trials/{trial_id}/checkpoints", { params: { path: { trial_id: id }, query: { limit: 200 } }, signal }));
      return { steps: page.items.map((item) => item.step), isCut: page.next !== null };
    },
  });

export const trialEvaluations = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "evaluations"],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/trials/{trial_id}/evaluations", { params: { path: { trial_id: id } }, signal })),
  });

export const trialEvents = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["trial", id, "events"],
    queryFn: ({ signal, pageParam }) =>
      unwrap(
        client.GET("/api/v1/trials/{trial_id}/events", {
          params: { path: { trial_id: id }, query: { limit: PAGE, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

/** Names and ranks, and those series that hold NaN or infinities. */
export const trialMetrics = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "metrics"],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/trials/{trial_id}/metrics", { params: { path: { trial_id: id }, query: { items: "non_finite" } }, signal }),
      ),
  });

export const tokens = queryOptions({
  queryKey: ["tokens"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/tokens", { signal })),
});

export const users = queryOptions({
  queryKey: ["users"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/users", { signal })),
});

export const joinTokens = queryOptions({
  queryKey: ["join-tokens"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/join-tokens", { signal })),
});

export interface RetentionAges {
  metric_days?: number;
  log_days?: number;
}

/** What is deleted by age and would be freed now; by the server's settings, or if these were set. */
export const retention = (ages: RetentionAges) =>
  queryOptions({
    queryKey: ["retention", ages],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/retention", { params: { query: ages }, signal })),
  });

export const projects = infiniteQueryOptions({
  queryKey: ["projects"],
  queryFn: ({ signal, pageParam }) => unwrap(client.GET("/api/v1/projects", { params: { query: { limit: 100, cursor: pageParam } }, signal })),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page) => page.next ?? undefined,
});

export const project = (name: string) =>
  queryOptions({
    queryKey: ["projects", name],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/projects/{name}", { params: { path: { name } }, signal })),
  });

export const projectEvents = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["projects", name, "events"],
    queryFn: ({ signal, pageParam }) =>
      unwrap(client.GET("/api/v1/projects/{name}/events", { params: { path: { name }, query: { limit: PAGE, cursor: pageParam } }, signal })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const pools = infiniteQueryOptions({
  queryKey: ["pools"],
  queryFn: ({ signal, pageParam }) => unwrap(client.GET("/api/v1/pools", { params: { query: { limit: 100, cursor: pageParam } }, signal })),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page) => page.next ?? undefined,
});
