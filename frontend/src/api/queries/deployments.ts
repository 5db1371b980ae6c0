/** Deployments: what answers requests, with which version. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { byCursor, get, type Schemas } from "../client";
import { PAGE } from "./pages";

export type DeploymentItem = Schemas["DeploymentItem"];
export type Deployment = Schemas["DeploymentOut"];
export type Replica = Schemas["ReplicaOut"];
export type Revision = Schemas["RevisionOut"];

/** Rates and latencies change without a hint. */
const POLL_MS = 5000;

export const deploymentList = () =>
  infiniteQueryOptions({
    queryKey: ["deployments"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/deployments", { params: { query: { limit: PAGE, cursor: pageParam } }, signal }),
    ...byCursor,
    placeholderData: keepPreviousData,
    refetchInterval: POLL_MS,
  });

export const deployment = (name: string) =>
  queryOptions({
    queryKey: ["deployments", name],
    queryFn: ({ signal }) => get("/api/v1/deployments/{name}", { params: { path: { name } }, signal }),
    refetchInterval: POLL_MS,
  });
