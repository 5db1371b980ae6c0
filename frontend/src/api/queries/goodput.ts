/** Where slot-seconds went: of the cluster, and of one trial. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { get, type Schemas } from "../client";

export type Goodput = Schemas["GoodputOut"];
export type TrialGoodput = Schemas["TrialGoodputOut"];
export type GoodputBy = "project" | "pool" | "user";
export type GoodputFilter = { [By in GoodputBy]?: string };

/** What runs is counted about once a minute. */
const COUNTED_MS = 60_000;
const TRIAL_MS = 15_000;

export const goodput = (days: number, by: GoodputBy, only: GoodputFilter) =>
  queryOptions({
    queryKey: ["goodput", days, by, only],
    queryFn: ({ signal }) => get("/api/v1/goodput", { params: { query: { days, by, ...only } }, signal }),
    placeholderData: keepPreviousData,
    refetchInterval: COUNTED_MS,
  });

/** Not with the trial's other queries: it reads the rows of every attempt. */
export const trialGoodput = (id: number, running: boolean) =>
  queryOptions({
    queryKey: ["trial-goodput", id, running],
    queryFn: ({ signal }) => get("/api/v1/trials/{trial_id}/goodput", { params: { path: { trial_id: id } }, signal }),
    placeholderData: keepPreviousData,
    refetchInterval: running ? TRIAL_MS : false,
  });
