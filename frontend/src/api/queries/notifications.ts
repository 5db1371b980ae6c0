/** Notifications: the inbox, rules, targets and what was sent to them. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { byCursor, get, type Schemas } from "../client";

export type Rule = Schemas["NotificationRuleOut"];
export type Target = Schemas["NotificationTargetOut"];
export type Delivery = Schemas["DeliveryOut"];
export type InboxEntry = Schemas["InboxEntryOut"];
export type Kind = Rule["kinds"][number];

const PAGE = 20;
const REFRESH_MS = 5_000;

export const inboxCount = queryOptions({
  queryKey: ["inbox", "count"],
  queryFn: ({ signal }) => get("/api/v1/notifications/inbox/count", { signal }),
  staleTime: 60_000,
});

export const inbox = infiniteQueryOptions({
  queryKey: ["inbox", "entries"],
  queryFn: ({ signal, pageParam }) =>
    get("/api/v1/notifications/inbox", { params: { query: { limit: PAGE, cursor: pageParam } }, signal }),
  ...byCursor,
});

export const notificationOptions = queryOptions({
  queryKey: ["notification-options"],
  queryFn: ({ signal }) => get("/api/v1/notifications/options", { signal }),
  staleTime: 5 * 60_000,
});

/** Rules of the user, or of a project: at most 50. */
export const notificationRules = (project?: string) =>
  queryOptions({
    queryKey: ["notification-rules", project ?? ""],
    queryFn: ({ signal }) => get("/api/v1/notifications/rules", { params: { query: { project, limit: 200 } }, signal }),
  });

/** Targets of the user, or of a project: at most 50. Nothing returns their addresses. */
export const notificationTargets = (project?: string) =>
  queryOptions({
    queryKey: ["notification-targets", project ?? ""],
    queryFn: ({ signal }) =>
      get("/api/v1/notifications/targets", { params: { query: { project, limit: 200 } }, signal }),
    // What is sent changes it, and nothing says when.
    refetchInterval: REFRESH_MS,
  });

export const deliveries = (target: number) =>
  infiniteQueryOptions({
    queryKey: ["notification-deliveries", target],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/notifications/targets/{target_id}/deliveries", {
        params: { path: { target_id: target }, query: { limit: PAGE, cursor: pageParam } },
        signal,
      }),
    ...byCursor,
    refetchInterval: 2_000,
  });
