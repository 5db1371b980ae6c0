import { type QueryClient, type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";

import { SERVER } from "../lib/address";
import { client, network, PATIENCE_MS } from "./client";
import { coalesce, LiveClient, type LiveStatus } from "./live";

/** Of requests while the live channel is broken: they are to tell whether the server is there. */
const CUT_OFF_PATIENCE_MS = 5_000;

export const live = new LiveClient(
  () => {
    const url = new URL(`${SERVER}/api/v1/live`);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return new WebSocket(url) as unknown as ReturnType<ConstructorParameters<typeof LiveClient>[0]>;
  },
  Math.random,
  () => void client.GET("/api/v1/auth/state").catch(() => undefined),
);

network.onReached = () => live.reached();
network.onUnreached = () => live.unreachable();
network.patienceMs = () => (live.isCutOff() ? CUT_OFF_PATIENCE_MS : PATIENCE_MS);
if (typeof document !== "undefined") {
  document.addEventListener("visibilitychange", () => live.setHidden(document.hidden));
}

export function useLiveStatus(): LiveStatus {
  return useSyncExternalStore(live.onStatus, live.getStatus);
}

/** The key of mutations after which what is shown is not there any more: hints of the deletion itself
 * must not have it fetched once more. They fetch what is left by themselves. */
export const DELETING = ["deleting"];

/** Fetch the visible queries under `key` anew. One that is being fetched may have been answered before
 * the change, so it is fetched once more afterwards. Ends when all are fetched. */
export async function refetch(queryClient: QueryClient, key: QueryKey): Promise<void> {
  if (queryClient.isMutating({ mutationKey: DELETING }) > 0) return;
  const busy = new Set(queryClient.getQueryCache().findAll({ queryKey: key, type: "active", fetchStatus: "fetching" }));
  const options = { cancelRefetch: false };
  await Promise.all([
    queryClient.invalidateQueries({ queryKey: key, predicate: (query) => !busy.has(query) }, options),
    ...[...busy].map(async (query) => {
      await query.promise?.catch(() => undefined);
      await queryClient.invalidateQueries({ queryKey: query.queryKey, exact: true }, options);
    }),
  ]);
}

/** Once the server is back, ask again what it did not answer; not everything on a page has a topic. */
export function useRetryWhenBack(): void {
  const queryClient = useQueryClient();
  const { state } = useLiveStatus();
  const isAway = state === "offline" || state === "reconnecting";
  useEffect(() => {
    if (isAway) return;
    void queryClient.refetchQueries({ type: "active", predicate: (query) => query.state.status === "error" });
  }, [isAway, queryClient]);
}

/** Refetch the visible queries under `keys` whenever `topic` changes. */
export function useLiveQueries(topic: string | null, ...keys: QueryKey[]): void {
  const queryClient = useQueryClient();
  const stable = JSON.stringify(keys);
  useEffect(() => {
    if (topic === null) return undefined;
    const parsed = JSON.parse(stable) as QueryKey[];
    const refresh = coalesce(() => Promise.all(parsed.map((key) => refetch(queryClient, key))));
    return live.subscribe(topic, refresh);
  }, [topic, stable, queryClient]);
}
