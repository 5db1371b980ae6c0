/** Who is here, and what only administrators see. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { byCursor, client, get, type Schemas, unwrap } from "../client";
import { allPages, PAGE } from "./pages";

export type Me = Schemas["MeOut"];
export type Retention = Schemas["RetentionOut"];
export type RetentionForecast = Schemas["RetentionForecastOut"];
export type AuditEntry = Schemas["AuditOut"];
export type SavedView = Schemas["SavedViewOut"];

export const authState = queryOptions({
  queryKey: ["auth-state"],
  queryFn: () => get("/api/v1/auth/state"),
  staleTime: 60_000,
});

export const me = queryOptions({
  queryKey: ["me"],
  queryFn: () => get("/api/v1/auth/me"),
  staleTime: 5 * 60_000,
  retry: false,
});

/** What the server knows by name, the same until it is another version. */
export const catalog = queryOptions({
  queryKey: ["catalog"],
  queryFn: ({ signal }) => get("/api/v1/catalog", { signal }),
  staleTime: Number.POSITIVE_INFINITY,
});

/** One's own views and the shared ones. */
export const savedViews = queryOptions({
  queryKey: ["views"],
  queryFn: async ({ signal }) =>
    (await allPages("views", (cursor) => get("/api/v1/views", { params: { query: { cursor, limit: 200 } }, signal })))
      .items,
  staleTime: 60_000,
});

/** The keys of what the user has dismissed from the overview. */
export const dismissals = queryOptions({
  queryKey: ["dismissals"],
  queryFn: async ({ signal }) => (await get("/api/v1/dismissals", { signal })).items.map((item) => item.key),
  staleTime: 60_000,
});

export const tokens = queryOptions({
  queryKey: ["tokens"],
  queryFn: ({ signal }) =>
    allPages("tokens", (cursor) => get("/api/v1/tokens", { params: { query: { cursor, limit: 200 } }, signal })),
});

/** API tokens of a service account, for administrators. */
export const accountTokens = (userId: number) =>
  queryOptions({
    queryKey: ["tokens", userId],
    queryFn: ({ signal }) =>
      allPages("tokens", (cursor) =>
        get("/api/v1/users/{user_id}/tokens", {
          params: { path: { user_id: userId }, query: { cursor, limit: 200 } },
          signal,
        }),
      ),
  });

/** Browsers in which the user is signed in. */
export const sessions = queryOptions({
  queryKey: ["sessions"],
  queryFn: ({ signal }) => get("/api/v1/sessions", { signal }),
});

/** Secrets of the user, or of a project: at most 200. Nothing returns their values. */
export const secrets = (project?: string) =>
  queryOptions({
    queryKey: ["secrets", project ?? ""],
    queryFn: ({ signal }) => {
      const query = { limit: 200 };
      return unwrap(
        project === undefined
          ? client.GET("/api/v1/secrets", { params: { query }, signal })
          : client.GET("/api/v1/projects/{project}/secrets", { params: { path: { project }, query }, signal }),
      );
    },
  });

export const users = queryOptions({
  queryKey: ["users"],
  queryFn: ({ signal }) =>
    allPages("users", (cursor) => get("/api/v1/users", { params: { query: { cursor, limit: 200 } }, signal })),
});

export const joinTokens = queryOptions({
  queryKey: ["join-tokens"],
  queryFn: ({ signal }) =>
    allPages("joinTokens", (cursor) =>
      get("/api/v1/join-tokens", { params: { query: { cursor, limit: 200 } }, signal }),
    ),
});

export interface RetentionAges {
  metric_days?: number;
  log_days?: number;
}

/** What is deleted by age and would be freed now; by the server's settings, or if these were set. */
export const retention = (ages: RetentionAges) =>
  queryOptions({
    queryKey: ["retention", ages],
    queryFn: ({ signal }) => get("/api/v1/retention", { params: { query: ages }, signal }),
  });

/** What is stored of each kind, how fast it grows, and when the disk is full. */
export const retentionForecast = queryOptions({
  queryKey: ["retention", "forecast"],
  queryFn: ({ signal }) => get("/api/v1/retention/forecast", { signal }),
});

/** The audit trail, newest first; text: part of what an entry shows. */
export const auditTrail = (text: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["audit", text ?? ""],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/audit", { params: { query: { q: text, limit: PAGE, cursor: pageParam } }, signal }),
    ...byCursor,
    placeholderData: keepPreviousData,
  });
