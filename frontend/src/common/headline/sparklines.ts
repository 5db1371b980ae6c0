/** Small curves beside numbers: asked for one by one, fetched together. */
import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../../api/client";
import { fromWire } from "../../lib/format";

const POINTS = 40;
const TRIALS_PER_REQUEST = 50;
const TOGETHER_MS = 20;
const REFRESH_MS = 10_000;

/** Finite values in the order of their steps, evenly thinned to at most 40. */
export type Curve = readonly number[];

interface Waiting {
  trialId: number;
  resolve: (curve: Curve) => void;
  reject: (error: unknown) => void;
}

const waiting = new Map<string, Waiting[]>();

async function fetchCurves(name: string, asked: readonly Waiting[]): Promise<void> {
  try {
    const reply = await unwrap(
      client.GET("/api/v1/series", {
        params: { query: { name: [name], trial: asked.map(({ trialId }) => trialId), max_points: POINTS } },
      }),
    );
    const curves = new Map<number, Curve>();
    for (const item of reply.items)
      curves.set(
        item.trial_id,
        item.series.mean
          .map((value) => fromWire(value))
          .filter((value) => value !== null && Number.isFinite(value)) as number[],
      );
    for (const { trialId, resolve } of asked) resolve(curves.get(trialId) ?? []);
  } catch (error) {
    for (const { reject } of asked) reject(error);
  }
}

function askTogether(trialId: number, name: string): Promise<Curve> {
  return new Promise((resolve, reject) => {
    const same = waiting.get(name);
    if (same) {
      same.push({ trialId, resolve, reject });
      return;
    }
    const asked: Waiting[] = [{ trialId, resolve, reject }];
    waiting.set(name, asked);
    setTimeout(() => {
      waiting.delete(name);
      for (let at = 0; at < asked.length; at += TRIALS_PER_REQUEST)
        void fetchCurves(name, asked.slice(at, at + TRIALS_PER_REQUEST));
    }, TOGETHER_MS);
  });
}

/** The curve of one metric of one trial; read again every ten seconds while the trial runs. */
export const sparkline = (trialId: number, name: string, runs: boolean) =>
  queryOptions({
    queryKey: ["sparkline", trialId, name],
    queryFn: () => askTogether(trialId, name),
    staleTime: runs ? REFRESH_MS : 300_000,
    refetchInterval: runs ? REFRESH_MS : false,
  });

/** The polyline of a curve in a box, from the top left; "" for fewer than two points. */
export function polyline(curve: Curve, width: number, height: number): string {
  if (curve.length < 2) return "";
  const [low, high] = [Math.min(...curve), Math.max(...curve)];
  const tall = high > low ? height / (high - low) : 0;
  return curve
    .map((value, at) => {
      const y = tall === 0 ? height / 2 : (high - value) * tall;
      return `${((at * width) / (curve.length - 1)).toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
}
