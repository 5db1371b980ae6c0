/** What a trial's epochs and samples are at a step: the x of its curves along them. */
import { useCallback, useEffect, useState } from "react";

import { coalesce } from "../../api/live";
import { live } from "../../api/liveHooks";
import type { TrialDetail } from "../../api/queries";
import type { ChartSearch } from "../../charts/chartSearch";
import { SeriesStore } from "../../charts/series/SeriesStore";
import { type Growing, type OfferedKind, SAMPLES_METRIC } from "../../lib/series/axis";
import { fetchTrialSeries } from "./useSeriesStore";

type Progressing = Pick<TrialDetail, "id" | "step" | "epoch" | "summary">;

/** The axes that a trial has curves along. */
export function kindsOf(trial: Progressing): OfferedKind[] {
  const has = { epoch: epochs(trial) !== undefined, samples: SAMPLES_METRIC in trial.summary };
  return [
    "step",
    ...(has.epoch ? (["epoch"] as const) : []),
    ...(has.samples ? (["samples"] as const) : []),
    "relative",
    "wall",
  ];
}

/** Steps per epoch are taken as constant, as the server takes them for searches. */
function epochs(trial: Progressing): Growing | undefined {
  return trial.epoch !== null && trial.step > 0 ? { step: [trial.step], value: [trial.epoch] } : undefined;
}

const NONE: ReadonlyMap<number, Growing> = new Map();

/** Reads the samples of trials while they are the x axis; the rest of the time it holds nothing. */
export function useGrowing(trials: readonly Progressing[], x: ChartSearch["x"]): (id: number) => Growing | undefined {
  const [known, setKnown] = useState<ReadonlyMap<number, Growing>>(NONE);
  const key = x === "samples" ? trials.map(({ id }) => id).join(",") : "";
  useEffect(() => {
    if (key === "") return undefined;
    const stores = key.split(",").map((id) => ({
      id: Number(id),
      store: new SeriesStore((ask, signal) => fetchTrialSeries(Number(id), ask, signal)),
    }));
    const read = (): void =>
      setKnown(
        new Map(
          stores.flatMap(({ id, store }) => {
            const columns = store.get(SAMPLES_METRIC)[0];
            return columns && columns.step.length > 0
              ? [[id, { step: columns.step, value: columns.last }] as const]
              : [];
          }),
        ),
      );
    for (const { store } of stores) {
      store.want(SAMPLES_METRIC);
      store.subscribe(read);
    }
    const ends = stores.map(({ id, store }) =>
      live.subscribe(
        `trial:${id}`,
        coalesce(() => store.refresh()),
      ),
    );
    return () => {
      for (const end of ends) end();
      for (const { store } of stores) store.dispose();
      setKnown(NONE);
    };
  }, [key]);
  return useCallback(
    (id) => {
      const trial = trials.find((one) => one.id === id);
      if (x === "epoch") return trial && epochs(trial);
      return x === "samples" ? known.get(id) : undefined;
    },
    [trials, x, known],
  );
}
