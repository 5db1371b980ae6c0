import { useEffect, useState } from "react";

import { client, unwrap } from "../../api/client";
import { coalesce } from "../../api/live";
import { live } from "../../api/liveHooks";
import { type Ask, type Reply, SeriesStore } from "../../charts/SeriesStore";

export async function fetchTrialSeries(trialId: number, ask: Ask, signal: AbortSignal): Promise<Reply> {
  return unwrap(
    client.GET("/api/v1/trials/{trial_id}/series", {
      params: {
        path: { trial_id: trialId },
        query: {
          name: ask.names,
          rank: ask.ranks ?? undefined,
          from_step: ask.from,
          to_step: ask.to,
          max_points: ask.maxPoints,
        },
      },
      signal,
    }),
  ) as Promise<Reply>;
}

/** A trial's points, refreshed on every hint of the live channel, at most twice a second. */
export function useSeriesStore(trialId: number, maxPoints = 1000, incremental = true): SeriesStore {
  const make = (): SeriesStore => new SeriesStore((ask, signal) => fetchTrialSeries(trialId, ask, signal), maxPoints, incremental);
  const [held, setHeld] = useState(() => ({ trialId, store: make() }));
  let { store } = held;
  if (held.trialId !== trialId) {
    store = make();
    setHeld({ trialId, store });
  }
  useEffect(() => live.subscribe(`trial:${trialId}`, coalesce(() => store.refresh())), [trialId, store]);
  return store;
}
