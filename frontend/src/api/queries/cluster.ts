/** Nodes, the queue, pools and projects. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { byCursor, client, get, type Schemas, unwrap } from "../client";
import { PAGE, allPages } from "./pages";

export type Cluster = Schemas["ClusterOut"];
export type Node = Schemas["NodeOut"];
export type Slot = Schemas["SlotOut"];
export type NodeAllocation = Schemas["NodeAllocationOut"];
export type Preflight = Schemas["PreflightOut"];
export type SystemMetrics = Schemas["SystemMetricsOut"];
export type QueueItem = Schemas["QueueItem"];
export type QueueMove = Schemas["QueueMove"];
export type Project = Schemas["ProjectOut"];
export type Utilization = Schemas["UtilizationOut"];
export type PoolSlots = Schemas["PoolSlotsOut"];
export type PoolUtilization = Schemas["PoolUtilizationOut"];
export type Pool = Schemas["PoolOut"];

export type MaintenanceWindow = Schemas["MaintenanceOut"];
export type NodeReservation = Schemas["ReservationOut"];

export type Health = Schemas["Ready"];

const HEALTH_MS = 10_000;

export const cluster = queryOptions({
  queryKey: ["cluster"],
  queryFn: ({ signal }) => get("/api/v1/cluster", { signal }),
});

/** Slots in use over the last hours. */
export const utilization = (hours: number) =>
  queryOptions({
    queryKey: ["utilization", hours],
    queryFn: ({ signal }) => get("/api/v1/cluster/utilization", { params: { query: { hours } }, signal }),
    placeholderData: keepPreviousData,
    refetchInterval: 30_000,
  });

/** Active and planned maintenance windows. */
export const maintenance = queryOptions({
  queryKey: ["maintenance"],
  queryFn: async ({ signal }) => (await get("/api/v1/maintenance", { signal })).items,
});

/** Active and planned reservations of nodes. */
export const reservations = queryOptions({
  queryKey: ["reservations"],
  queryFn: async ({ signal }) => (await get("/api/v1/reservations", { signal })).items,
});

/** Every node: pages of 200 until the end (a cluster page shows all of them). */
/** Which parts of the server are up. Of a server that is not ready, this is the answer all the same. */
export const health = queryOptions({
  queryKey: ["health"],
  queryFn: async ({ signal }) => {
    const { data, error, response } = await client.GET("/readyz", { signal });
    const isAnswer = typeof error === "object" && "database" in error;
    return data ?? (isAnswer ? error : unwrap<Health>(Promise.resolve({ error, response })));
  },
  refetchInterval: HEALTH_MS,
});

export const nodes = queryOptions({
  queryKey: ["nodes"],
  queryFn: async ({ signal }) =>
    (await allPages("nodes", (cursor) => get("/api/v1/nodes", { params: { query: { limit: 200, cursor } }, signal })))
      .items,
});

export const node = (nodeId: string) =>
  queryOptions({
    queryKey: ["nodes", nodeId],
    queryFn: ({ signal }) => get("/api/v1/nodes/{node_id}", { params: { path: { node_id: nodeId } }, signal }),
  });

export const nodeAllocations = (nodeId: string) =>
  infiniteQueryOptions({
    queryKey: ["nodes", nodeId, "allocations"],
    queryFn: ({ pageParam, signal }) =>
      get("/api/v1/nodes/{node_id}/allocations", {
        params: { path: { node_id: nodeId }, query: { limit: 20, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

/** One preflight; asked for again until it has ended. */
export const preflight = (preflightId: string) =>
  queryOptions({
    queryKey: ["preflights", preflightId],
    queryFn: ({ signal }) =>
      get("/api/v1/preflights/{preflight_id}", {
        params: { path: { preflight_id: Number(preflightId) } },
        signal,
      }),
    refetchInterval: (query) => (query.state.data?.state === "running" ? 1_000 : false),
  });

/** The latest preflights. */
export const preflights = queryOptions({
  queryKey: ["preflights"],
  queryFn: async ({ signal }) => (await get("/api/v1/preflights", { params: { query: { limit: 5 } }, signal })).items,
});

export const nodeEvents = (nodeId: string) =>
  infiniteQueryOptions({
    queryKey: ["nodes", nodeId, "events"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/nodes/{node_id}/events", {
        params: { path: { node_id: nodeId }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

/** By a node's id or name, over the last hour. */
export const systemMetrics = (node: string) =>
  queryOptions({
    queryKey: ["system-metrics", node],
    queryFn: ({ signal }) =>
      get("/api/v1/nodes/{node_id}/system-metrics", { params: { path: { node_id: node } }, signal }),
    refetchInterval: 15_000,
  });

export const queue = (project?: string) =>
  infiniteQueryOptions({
    queryKey: ["queue", project ?? null],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/queue", { params: { query: { project, limit: 100, cursor: pageParam } }, signal }),
    ...byCursor,
    placeholderData: keepPreviousData,
  });

const HEAD = 5;

/** What is next in the queue. */
export const queueHead = queryOptions({
  queryKey: ["queue", null, "head"],
  queryFn: async ({ signal }) => (await get("/api/v1/queue", { params: { query: { limit: HEAD } }, signal })).items,
});

export const projects = infiniteQueryOptions({
  queryKey: ["projects"],
  queryFn: ({ signal, pageParam }) =>
    get("/api/v1/projects", { params: { query: { limit: 100, cursor: pageParam } }, signal }),
  ...byCursor,
});

export const project = (name: string) =>
  queryOptions({
    queryKey: ["projects", name],
    queryFn: ({ signal }) => get("/api/v1/projects/{name}", { params: { path: { name } }, signal }),
  });

export const projectMembers = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["projects", name, "members"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/projects/{project}/members", {
        params: { path: { project: name }, query: { limit: 100, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

export const projectEvents = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["projects", name, "events"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/projects/{name}/events", {
        params: { path: { name }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
  });

const PROVIDER_MS = 5_000;

/** What supplies the nodes of a pool. */
export const poolProvider = (name: string) =>
  queryOptions({
    queryKey: ["pools", name, "provider"],
    queryFn: ({ signal }) => get("/api/v1/pools/{name}/provider", { params: { path: { name } }, signal }),
    refetchInterval: PROVIDER_MS,
  });

export const poolPilots = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["pools", name, "pilots"],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/pools/{name}/pilots", {
        params: { path: { name }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
    refetchInterval: PROVIDER_MS,
  });

export const pools = infiniteQueryOptions({
  queryKey: ["pools"],
  queryFn: ({ signal, pageParam }) =>
    get("/api/v1/pools", { params: { query: { limit: 100, cursor: pageParam } }, signal }),
  ...byCursor,
});
