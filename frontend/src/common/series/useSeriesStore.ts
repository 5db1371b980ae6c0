import { useEffect, useState } from "react";

import { askedAhead } from "../../api/ahead";
import { client, unwrap } from "../../api/client";
import { coalesce } from "../../api/live";
import { live } from "../../api/liveHooks";
import { type Ask, POINTS_MAX, type SeriesReply, SeriesStore } from "../../charts/series/SeriesStore";

/** Says all that an answer depends on. */
export const seriesQuestion = (trialId: number, ask: Ask): string =>
  `series ${trialId} ${JSON.stringify([ask.names, ask.ranks, ask.from, ask.to, ask.maxPoints])}`;

export async function fetchTrialSeries(trialId: number, ask: Ask, signal?: AbortSignal): Promise<SeriesReply> {
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
  );
}

/** A trial's points, refreshed on every hint of the live channel, at most twice a second. */
export function useSeriesStore(trialId: number, maxPoints = POINTS_MAX, incremental = true): SeriesStore {
  const make = (): SeriesStore =>
    new SeriesStore(
      (ask, signal) => askedAhead(seriesQuestion(trialId, ask), () => fetchTrialSeries(trialId, ask, signal)),
      maxPoints,
      incremental,
    );
  const [held, setHeld] = useState(() => ({ trialId, store: make() }));
  let { store } = held;
  if (held.trialId !== trialId) {
    store = make();
    setHeld({ trialId, store });
  }
  useEffect(
    () =>
      live.subscribe(
        `trial:${trialId}`,
        coalesce(() => store.refresh()),
      ),
    [trialId, store],
  );
  return store;
}
