/** Ticks of axes that are drawn without uPlot, and words for instants. Pure. */
import { logTicks } from "../../lib/series/series";
import { stamp, type TimeZone } from "../../lib/time";

const DAY_START = "00:00:00";

/** "14:02:10", at midnight the date; `whole`: both. */
export function wallTick(at: number, zone: TimeZone, whole: boolean): string {
  if (whole) return stamp(at, zone);
  const time = stamp(at, zone, "time").slice(0, 8);
  if (time === DAY_START) return stamp(at, zone, "date").slice(5);
  return time.endsWith(":00") ? time.slice(0, 5) : time;
}

/** At most about `most` round values from `min` to `max`: multiples of 1, 2 or 5 times a power of ten. */
export function roundTicks(min: number, max: number, log = false, most = 6): number[] {
  if (log) return logTicks(min, max);
  if (!(max > min)) return [min];
  const rough = (max - min) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const by = ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10) * power;
  const out: number[] = [];
  for (let k = Math.ceil(min / by); k * by <= max + by * 1e-9; k += 1) out.push(Number((k * by).toPrecision(12)));
  return out;
}
