/** Jobs in which somebody works. */
import { queryOptions } from "@tanstack/react-query";

import { get, type Schemas } from "../client";

export type InteractiveSession = Schemas["InteractiveSessionOut"];

export const interactiveSessions = queryOptions({
  queryKey: ["interactive-sessions"],
  queryFn: async ({ signal }) => (await get("/api/v1/interactive-sessions", { signal })).items,
  // What a session says of its use comes with no hint of its own.
  refetchInterval: 30_000,
});
