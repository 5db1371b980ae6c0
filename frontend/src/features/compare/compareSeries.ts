/** The curves of many trials, asked for one by one and fetched together. */
import { client, unwrap } from "../../api/client";
import type { Ask, SeriesReply } from "../../charts/series/SeriesStore";

const TOGETHER_MS = 20;
/** As many curves as the server has in one answer. */
const CURVES_PER_REQUEST = 200;

interface Waiting {
  trialId: number;
  resolve: (reply: SeriesReply) => void;
  reject: (error: unknown) => void;
}

async function fetchTogether(ask: Ask, asked: readonly Waiting[]): Promise<void> {
  try {
    const reply = await unwrap(
      client.GET("/api/v1/series", {
        params: {
          query: {
            trial: asked.map(({ trialId }) => trialId),
            name: ask.names,
            rank: ask.ranks ?? undefined,
            from_step: ask.from,
            to_step: ask.to,
            max_points: ask.maxPoints,
          },
        },
      }),
    );
    const found = new Map<number, SeriesReply["series"]>();
    for (const { trial_id: id, series } of reply.items) found.set(id, [...(found.get(id) ?? []), series]);
    for (const { trialId, resolve } of asked) {
      const series = found.get(trialId) ?? [];
      // Each answer has the whole visible curve, so attempts need not be told apart.
      resolve({
        trial_id: trialId,
        attempt_no: 0,
        series,
        truncated: false,
        num_matching: series.length,
      });
    }
  } catch (error) {
    for (const { reject } of asked) reject(error);
  }
}

/** A function that answers for one trial, of which those of one moment become few requests. */
export function togetherFetcher(): (trialId: number, ask: Ask) => Promise<SeriesReply> {
  const waiting = new Map<string, Waiting[]>();
  return (trialId, ask) =>
    new Promise((resolve, reject) => {
      const key = JSON.stringify(ask);
      const one = { trialId, resolve, reject };
      const same = waiting.get(key);
      if (same) {
        same.push(one);
        return;
      }
      const asked: Waiting[] = [one];
      waiting.set(key, asked);
      setTimeout(() => {
        waiting.delete(key);
        const most = Math.max(1, Math.floor(CURVES_PER_REQUEST / Math.max(1, ask.names.length)));
        for (let at = 0; at < asked.length; at += most) void fetchTogether(ask, asked.slice(at, at + most));
      }, TOGETHER_MS);
    });
}
