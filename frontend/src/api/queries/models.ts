/** Models, their versions and aliases. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { byCursor, get, type Schemas } from "../client";
import { PAGE } from "./pages";

export type ModelItem = Schemas["ModelItem"];
export type ModelVersionItem = Schemas["ModelVersionItem"];
export type ModelVersion = Schemas["ModelVersionOut"];
export type ModelFile = Schemas["ModelFileOut"];
export type AliasMove = Schemas["ModelAliasMoveOut"];
export type Promotion = Schemas["ModelPromotionOut"];
export type ModelExportJob = Schemas["ModelExportJobOut"];
export type ModelExport = Schemas["ModelExportOut"];
export type ModelUse = Schemas["ModelUseOut"];
export type Leaderboard = Schemas["LeaderboardOut"];
export type LeaderboardRow = Schemas["LeaderboardRowOut"];

const POLL_MS = 2000;

export const modelList = (text: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["models", text ?? ""],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/models", {
        params: { query: { q: text === "" ? undefined : text, limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
    placeholderData: keepPreviousData,
  });

export const model = (name: string) =>
  queryOptions({
    queryKey: ["model", name],
    queryFn: ({ signal }) => get("/api/v1/models/{name}", { params: { path: { name } }, signal }),
  });

export const modelVersions = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["model", name, "versions"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/models/{name}/versions", {
        params: { path: { name }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

/** Asked again while it is being made, in case no hint comes. */
export const modelVersion = (name: string, number: number) =>
  queryOptions({
    queryKey: ["model", name, "version", number],
    queryFn: ({ signal }) =>
      get("/api/v1/models/{name}/versions/{number}", { params: { path: { name, number } }, signal }),
    refetchInterval: (query) => (query.state.data?.state === "making" ? POLL_MS : false),
  });

export const modelHistory = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["model", name, "history"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/models/{name}/history", {
        params: { path: { name }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

export const modelPromotions = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["model", name, "promotions"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/models/{name}/promotions", {
        params: { path: { name }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

/** The jobs that export a version, newest first. */
export const modelExports = (name: string, number: number) =>
  infiniteQueryOptions({
    queryKey: ["model", name, "version", number, "exports"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/models/{name}/versions/{number}/exports", {
        params: { path: { name, number }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

/** The versions that an experiment produced. */
export const experimentVersions = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "model-versions"],
    queryFn: ({ signal }) =>
      get("/api/v1/experiments/{experiment_id}/model-versions", {
        params: { path: { experiment_id: id }, query: { limit: PAGE } },
        signal,
      }),
  });

/** The versions that an experiment reads. */
export const experimentUses = (id: number) =>
  queryOptions({
    queryKey: ["experiment", id, "model-uses"],
    queryFn: ({ signal }) =>
      get("/api/v1/experiments/{experiment_id}/model-uses", {
        params: { path: { experiment_id: id }, query: { limit: PAGE } },
        signal,
      }),
  });

export const modelLineage = (name: string, number: number) =>
  queryOptions({
    queryKey: ["model", name, "lineage", number],
    queryFn: ({ signal }) =>
      get("/api/v1/models/{name}/versions/{number}/lineage", { params: { path: { name, number } }, signal }),
  });

export const leaderboards = queryOptions({
  queryKey: ["models", "leaderboards"],
  queryFn: ({ signal }) => get("/api/v1/models:leaderboards", { signal }),
});
