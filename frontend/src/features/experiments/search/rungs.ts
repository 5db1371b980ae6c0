/** Layout of the rung view. Pure. */
import type { Search } from "../../../api/queries";
import { fromWire } from "../../../lib/format";

export type Fate = "promoted" | "stopped" | "outran" | "waiting" | "finished";

/** What became of a trial at a rung. */
export const fateOf = (trial: Search["rungs"][number]["trials"][number], isLast: boolean): Fate =>
  trial.promoted ? "promoted" : trial.outran ? "outran" : trial.stopped ? "stopped" : isLast ? "finished" : "waiting";

export interface RungDot {
  trialId: number;
  trialNo: number;
  rung: number;
  value: number;
  fate: Fate;
  x: number;
  y: number;
}

export interface RungColumn {
  index: number;
  units: number;
  x: number;
  width: number;
  cutoff: number | null;
  cutoffY: number | null;
  reported: number;
  promoted: number;
  stopped: number;
  /** Reported something that has no place on the axis (NaN or infinite). */
  nonFinite: number;
}

export interface RungLayout {
  width: number;
  height: number;
  left: number;
  top: number;
  columns: RungColumn[];
  dots: RungDot[];
  /** At most LINKS_MAX: when there are more, those that lead furthest. */
  links: { from: RungDot; to: RungDot }[];
  /** How many there would be. */
  numLinks: number;
  ticks: { value: number; y: number }[];
  log: boolean;
}

const TOP = 44;
const BOTTOM = 14;
const LEFT = 62;
const COLUMN = 150;
/** More lines than these are a grey field, which takes longer to draw than to pass over. */
export const LINKS_MAX = 2000;

const STEPS = [1, 2, 2.5, 5, 10];

/** Round numbers within low..high, about five; on a log axis 1, 2 and 5 of each decade, or powers of
 * ten when there are many; with `steps`, at multiples of the first that is large enough. Of a single
 * value that value. */
export function roundTicks(low: number, high: number, log: boolean, steps: readonly number[] = []): number[] {
  if (!(high > low)) return [low];
  if (log) {
    const decades = Math.floor(Math.log10(high)) - Math.floor(Math.log10(low)) + 1;
    const stride = Math.ceil(decades / 6);
    const digits = decades > 3 ? [1] : [1, 2, 5];
    const out: number[] = [];
    for (let exponent = Math.floor(Math.log10(low)); exponent <= Math.log10(high); exponent += stride) {
      for (const digit of digits) {
        const value = Number(`${digit}e${exponent}`);
        if (value >= low && value <= high) out.push(value);
      }
    }
    return out;
  }
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = steps.find((each) => each >= raw) ?? power * (STEPS.find((factor) => factor * power >= raw) ?? 10);
  const out: number[] = [];
  // Counted, not added up: sums of tenths drift.
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1)
    out.push(Number((i * step).toPrecision(12)));
  return out;
}

/** Columns are rungs, dots trials at their metric there. Best always at the bottom for "min", at the
 * top for "max", as on a chart. Log axis when the values span more than a factor 50. */
export function layoutRungs(search: Search, minWidth = 640, height = 320): RungLayout {
  const values: number[] = [];
  for (const rung of search.rungs) {
    for (const trial of rung.trials) {
      const v = fromWire(trial.metric);
      if (v !== null && Number.isFinite(v)) values.push(v);
    }
    if (rung.cutoff !== null) values.push(rung.cutoff);
  }
  const low = values.length > 0 ? Math.min(...values) : 0;
  const high = values.length > 0 ? Math.max(...values) : 1;
  const log = low > 0 && high / low > 50;
  const scale = (v: number): number => (log ? Math.log10(v) : v);
  const from = scale(low);
  const span = scale(high) - from || 1;
  const inner = height - TOP - BOTTOM - 16;
  const y = (v: number): number => TOP + 8 + inner * (1 - (scale(v) - from) / span);
  const count = Math.max(1, search.rungs.length);
  const width = Math.max(minWidth, LEFT + count * COLUMN + 16);
  const step = (width - LEFT - 16) / count;
  const dots: RungDot[] = [];
  const columns: RungColumn[] = search.rungs.map((rung, i) => {
    const x = LEFT + step * i;
    const here = rung.trials.flatMap((trial) => {
      const v = fromWire(trial.metric);
      return v !== null && Number.isFinite(v) ? [{ trial, v }] : [];
    });
    // Spread by order of the value, so that dots that are close in value stand side by side.
    here
      .toSorted((a, b) => a.v - b.v)
      .forEach(({ trial, v }, j) => {
        const lane = ((j * 7) % 11) / 10 - 0.5;
        dots.push({
          trialId: trial.trial_id,
          trialNo: trial.trial_no,
          rung: i,
          value: v,
          fate: fateOf(trial, i === search.rungs.length - 1),
          x: x + step / 2 + lane * Math.min(70, step * 0.5),
          y: y(v),
        });
      });
    return {
      index: rung.index,
      units: rung.units,
      x,
      width: step,
      cutoff: rung.cutoff,
      cutoffY: rung.cutoff === null ? null : y(rung.cutoff),
      // More may have come than are drawn.
      reported: rung.num_trials - rung.trials.filter((trial) => trial.metric === null).length,
      promoted: rung.num_promoted,
      stopped: rung.trials.filter((trial) => trial.stopped).length,
      nonFinite: rung.trials.filter((trial) => typeof trial.metric === "string").length,
    };
  });
  const byTrial = new Map<number, RungDot[]>();
  for (const dot of dots) {
    const known = byTrial.get(dot.trialId);
    if (known) known.push(dot);
    else byTrial.set(dot.trialId, [dot]);
  }
  const links: { from: RungDot; to: RungDot }[] = [];
  for (const list of byTrial.values()) {
    list
      .toSorted((a, b) => a.rung - b.rung)
      .forEach((to, i, sorted) => {
        const previous = sorted[i - 1];
        if (previous) links.push({ from: previous, to });
      });
  }
  const ticks = values.length === 0 ? [] : roundTicks(low, high, log).map((value) => ({ value, y: y(value) }));
  const drawn = links.length > LINKS_MAX ? links.toSorted((a, b) => b.to.rung - a.to.rung).slice(0, LINKS_MAX) : links;
  return { width, height, left: LEFT, top: TOP, columns, dots, links: drawn, numLinks: links.length, ticks, log };
}
