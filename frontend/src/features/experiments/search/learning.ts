/** Learning curves of a search: which are told apart, and what is known of trials that run elsewhere. Pure. */
import type { Search } from "../../../api/queries";
import type { Line } from "../../../charts/series/lines";
import { fromWire } from "../../../lib/format";
import type { Columns } from "../../../lib/series/series";
import { byMetric, metrics, type Results } from "./searchData";

/** So many curves stand out; the others are pale. */
export const STANDING_OUT = 12;

/** Ids of the trials whose curves stand out: the best, whether they were stopped or not. */
export function standingOut(results: Results): ReadonlySet<number> {
  const metric = metrics(results);
  const reported = metric.flatMap((value, i) => (value === null ? [] : [i]));
  const chosen = byMetric(reported, metric, results.metric_goal).slice(0, STANDING_OUT);
  return new Set(chosen.map((i) => results.id[i] ?? -1));
}

/** How the epoch grows with the step in each trial that says both: in proportion. By id. */
export function epochsOf(results: Results): ReadonlyMap<number, NonNullable<Line["along"]>> {
  return new Map(
    results.id.flatMap((id, i) => {
      const [step, epoch] = [results.step[i] ?? 0, results.epoch[i] ?? 0];
      return step > 0 && epoch > 0 ? [[id, { growing: { step: [step], value: [epoch] } }] as const] : [];
    }),
  );
}

/** The values at rungs as curves, by trial: all that is known of trials whose training is told from outside. `step`: the rung's budget. */
export function curvesOfRungs(search: Search): { trialId: number; trialNo: number; columns: Columns }[] {
  const found = new Map<number, { trialNo: number; points: Map<number, number> }>();
  for (const rung of search.rungs) {
    for (const trial of rung.trials) {
      const value = fromWire(trial.metric);
      if (value === null) continue;
      const one = found.get(trial.trial_id) ?? { trialNo: trial.trial_no, points: new Map<number, number>() };
      one.points.set(rung.units, value);
      found.set(trial.trial_id, one);
    }
  }
  return [...found].map(([trialId, { trialNo, points }]) => {
    const sorted = [...points].toSorted((a, b) => a[0] - b[0]);
    const step = Float64Array.from(sorted, ([units]) => units);
    const values = Float64Array.from(sorted, ([, value]) => value);
    return {
      trialId,
      trialNo,
      columns: {
        name: search.metric_name ?? "",
        rank: 0,
        bucketSteps: 1,
        numPoints: sorted.length,
        step,
        timeMs: step,
        min: values,
        max: values,
        mean: values,
        last: values,
        count: Float64Array.from(sorted, () => 1),
      },
    };
  });
}
