/** Metrics that come with an interval: `accuracy` beside `accuracy_low` and `accuracy_high`. */

import * as format from "./format";
import type { WireNumber } from "./format";

export interface Estimate {
  name: string;
  value: WireNumber | null;
  /** Both ends of the interval, or undefined without one. */
  range?: [WireNumber, WireNumber];
}

const END = /_(low|high)$/;

/** Each metric once, in the order given; ends of an interval are with their metric. */
export function estimates(metrics: Record<string, WireNumber | null>): Estimate[] {
  const isEnd = (name: string) => END.test(name) && name.replace(END, "") in metrics;
  return Object.entries(metrics)
    .filter(([name]) => !isEnd(name))
    .map(([name, value]) => {
      const [low, high] = [metrics[`${name}_low`], metrics[`${name}_high`]];
      return low == null || high == null ? { name, value } : { name, value, range: [low, high] };
    });
}

/** The interval as every language writes it: "[0.8093, 0.9087]"; "" without one. */
export function rangeText({ name, range }: Estimate): string {
  return range ? `[${format.metric(name, range[0])}, ${format.metric(name, range[1])}]` : "";
}
