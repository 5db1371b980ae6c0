/** What a chart's legend says of a line at the cursor. Pure. */
import type { XKind } from "../../lib/series/axis";
import { indexAt } from "../../lib/series/series";

export interface Pointed {
  /** Index of the point. */
  index: number;
  /** False: the line has none where the cursor is; this is the one before. */
  isThere: boolean;
}

/**
 * The point of a line at a place of the axis; the latest one without a place, null before the first. Steps are the same
 * for all lines, so a line is there where it has this very step, or a bucket with it. Times and epochs are not: there a
 * line has a value from its first point to its last.
 */
export function pointAt(x: ArrayLike<number>, bucketSteps: number, at: number | null, kind: XKind): Pointed | null {
  const last = x.length - 1;
  if (at === null) return last < 0 ? null : { index: last, isThere: true };
  const index = indexAt(x, at);
  if (index < 0) return null;
  const behind = at - (x[index] ?? at);
  return { index, isThere: kind === "step" ? behind < Math.max(bucketSteps, 1) : index < last || behind === 0 };
}
