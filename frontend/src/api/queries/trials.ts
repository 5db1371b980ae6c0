/** One trial. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { byCursor, get, type Schemas } from "../client";
import { PAGE, allPages } from "./pages";

export type Trial = Schemas["TrialOut"];
export type TrialDetail = Schemas["TrialDetail"];
export type Worker = Schemas["WorkerOut"];
export type EventItem = Schemas["EventOut"];
export type TrialPerformance = Schemas["PerformanceOut"];
export type TrialProgress = Schemas["ProgressOut"];
export type Diagnosis = Schemas["DiagnosisOut"];
export type TrialStacks = Schemas["StacksOut"];
export type TrialPlan = Schemas["TrialPlanOut"];
export type ProfileWindow = Schemas["ProfileOut"];
export type TraceTimes = Omit<Schemas["TraceStepOut"], "step">;
export type RankSteps = Schemas["RankSteps"];
export type ProcessGroup = Schemas["ProcessGroupOut"];
export type Reproduction = Schemas["ReproductionOut"];
export type TrialSystemMetrics = Schemas["TrialSystemMetricsOut"];

/** summary: all metrics, or those that the head of its page needs; a trial may have thousands. */
const aTrial = (id: number, summary: "all" | "headline") =>
  queryOptions({
    queryKey: summary === "all" ? ["trial", id, "whole"] : ["trial", id],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}", { params: { path: { trial_id: id }, query: { summary } }, signal }),
  });

export const trial = (id: number) => aTrial(id, "headline");
export const wholeTrial = (id: number) => aTrial(id, "all");

export const trialWorkers = (id: number, attempt?: number) =>
  queryOptions({
    queryKey: ["trial", id, "workers", attempt ?? null],
    queryFn: ({ signal }) =>
      allPages("ranks", (cursor) =>
        get("/api/v1/trials/{trial_id}/workers", {
          params: { path: { trial_id: id }, query: { attempt, cursor, limit: 200 } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

/** Not with the trial's other queries: it reads the newest rows of every rank, so it is asked for every
 * few seconds and not at each hint. */
export const trialPerformance = (id: number, running: boolean, attempt?: number) =>
  queryOptions({
    // Asked for once more at the end: what was measured last counts, too.
    queryKey: ["trial-performance", id, attempt ?? null, running],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/performance", {
        params: { path: { trial_id: id }, query: { attempt } },
        signal,
      }),
    refetchInterval: running ? 5000 : false,
    placeholderData: keepPreviousData,
  });

/** Its diagnoses, the newest first; asked for again while one runs, or while an advice is tried. */
export const trialDiagnoses = (id: number) =>
  queryOptions({
    queryKey: ["trial-diagnoses", id],
    queryFn: async ({ signal }) =>
      (
        await allPages("diagnoses", (cursor) =>
          get("/api/v1/trials/{trial_id}/diagnoses", {
            params: { path: { trial_id: id }, query: { cursor, limit: 50 } },
            signal,
          }),
        )
      ).items,
    refetchInterval: (query) => {
      const all = query.state.data ?? [];
      if (all.some((one) => one.state === "running")) return 2_000;
      return all.some((one) =>
        one.advice.some((advice) => advice.applied.some((a) => a.state === "QUEUED" || a.state === "RUNNING")),
      )
        ? 5_000
        : false;
    },
  });

/** How far its ranks are. Asked for every few seconds while it runs: what matters is what does not change. */
export const trialProgress = (id: number, running: boolean) =>
  queryOptions({
    queryKey: ["trial-progress", id],
    queryFn: ({ signal }) => get("/api/v1/trials/{trial_id}/progress", { params: { path: { trial_id: id } }, signal }),
    refetchInterval: running ? 5000 : false,
  });

export const trialStacks = (id: number, running: boolean) =>
  queryOptions({
    queryKey: ["trial", id, "stacks"],
    queryFn: ({ signal }) => get("/api/v1/trials/{trial_id}/stacks", { params: { path: { trial_id: id } }, signal }),
    refetchInterval: (query) => {
      const data = query.state.data;
      return running && data && data.no > 0 && data.ranks.length < data.num_expected ? 1000 : false;
    },
  });

/** attemptNo: a new attempt may run with other versions. */
export const trialReproduction = (id: number, attemptNo: number, running: boolean) =>
  queryOptions({
    queryKey: ["trial-reproduction", id, attemptNo],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/reproduction", { params: { path: { trial_id: id } }, signal }),
    // Until the first node was ready nothing is known of what it runs with.
    refetchInterval: (query) => (running && query.state.data?.environment === null ? 5000 : false),
    placeholderData: keepPreviousData,
  });

/** How busy the nodes of a trial were; nodes: their names, by default the first ones. */
export const trialSystemMetrics = (id: number, nodes: readonly string[], running: boolean) =>
  queryOptions({
    queryKey: ["trial-system-metrics", id, nodes],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/system-metrics", {
        params: { path: { trial_id: id }, query: { node: nodes.length > 0 ? [...nodes] : undefined } },
        signal,
      }),
    refetchInterval: running ? 15_000 : false,
    placeholderData: keepPreviousData,
  });

export const trialPlan = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "plan"],
    queryFn: ({ signal }) => get("/api/v1/trials/{trial_id}/plan", { params: { path: { trial_id: id } }, signal }),
    staleTime: 60_000,
    refetchInterval: (query) => (query.state.data?.is_pending ? 1000 : false), // a node is listing the layers
  });

export const traceFigures = (id: number, no: number) =>
  queryOptions({
    queryKey: ["trace-figures", id, no], // not under "trial": computing it again at every event would cost seconds
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/profiles/{no}/summary", {
        params: { path: { trial_id: id, no } },
        signal,
      }),
    retry: false,
    staleTime: 60_000,
  });

export const trialProfiles = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "profiles"],
    queryFn: ({ signal }) => get("/api/v1/trials/{trial_id}/profiles", { params: { path: { trial_id: id } }, signal }),
    refetchInterval: (query) => (query.state.data?.items.some((w) => !w.is_complete) ? 1000 : false),
  });

export const trialGroups = (id: number, attempt?: number) =>
  queryOptions({
    queryKey: ["trial", id, "groups", attempt ?? null],
    queryFn: ({ signal }) =>
      allPages("processGroups", (cursor) =>
        get("/api/v1/trials/{trial_id}/groups", {
          params: { path: { trial_id: id }, query: { attempt, cursor, limit: 200 } },
          signal,
        }),
      ),
  });

export const trackedRuns = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "trackedRuns"],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/tracked-runs", {
        params: { path: { trial_id: id }, query: { limit: 200 } },
        signal,
      }),
  });

export const trialEvaluations = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "evaluations"],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/evaluations", { params: { path: { trial_id: id } }, signal }),
  });

export const trialEvents = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["trial", id, "events"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/trials/{trial_id}/events", {
        params: { path: { trial_id: id }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

/** Steps at which the trial's guards have acted. */
export const trialGuardSteps = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "events", "guards"],
    queryFn: async ({ signal }) => {
      const page = await get("/api/v1/trials/{trial_id}/events", {
        params: { path: { trial_id: id }, query: { type: "guard.fired", limit: 200 } },
        signal,
      });
      return [...new Set(page.items.map((item) => Number(item.data["step"])))].toSorted((a, b) => a - b);
    },
  });

/** Names and ranks, and those series that hold NaN or infinities. */
export const trialMetrics = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "metrics"],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/metrics", {
        params: { path: { trial_id: id }, query: { items: "non_finite" } },
        signal,
      }),
  });

const ERRORS_MS = 15_000;

/** How many lines of a trial's log are errors or worse. Not with its other queries, which each hint asks again. */
export const trialLogErrors = (id: number, isOver: boolean) =>
  queryOptions({
    queryKey: ["trial-log-errors", id, isOver],
    queryFn: async ({ signal }) => {
      const found = await get("/api/v1/trials/{trial_id}/logs/histogram", {
        params: { path: { trial_id: id } },
        signal,
      });
      const sum = (counts: readonly number[] = []): number => counts.reduce((all, one) => all + one, 0);
      return sum(found.levels["error"]) + sum(found.levels["critical"]);
    },
    staleTime: ERRORS_MS,
    refetchInterval: isOver ? false : ERRORS_MS,
  });
