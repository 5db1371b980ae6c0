import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";

import { network } from "./client";
import { coalesce, LiveClient, type LiveStatus } from "./live";

export const live = new LiveClient(() => {
  const url = new URL("/api/v1/live", location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(url) as unknown as ReturnType<ConstructorParameters<typeof LiveClient>[0]>;
});

network.onReached = () => live.reached();
network.onUnreached = () => live.unreachable();
if (typeof document !== "undefined") {
  document.addEventListener("visibilitychange", () => live.setHidden(document.hidden));
}

export function useLiveStatus(): LiveStatus {
  return useSyncExternalStore(live.onStatus, live.getStatus);
}

/** Refetch the visible queries under `keys` whenever `topic` changes. */
export function useLiveQueries(topic: string | null, ...keys: QueryKey[]): void {
  const queryClient = useQueryClient();
  const stable = JSON.stringify(keys);
  useEffect(() => {
    if (topic === null) return undefined;
    const parsed = JSON.parse(stable) as QueryKey[];
    const refresh = coalesce(() =>
      Promise.all(
        parsed.map((queryKey) =>
          queryClient.invalidateQueries({ queryKey, refetchType: "active" }, { cancelRefetch: false }),
        ),
      ),
    );
    return live.subscribe(topic, refresh);
  }, [topic, stable, queryClient]);
}
