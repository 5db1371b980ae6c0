/** Y axes that were set by hand, as they stand in the address: "train/loss:0.1:2;val/acc::1". Pure. */

/** Lowest and highest value of an axis; null: by the values. */
export type YRange = readonly [number | null, number | null];

/** As many charts as one address keeps a range for; the oldest is given up for another. */
export const MAX_RANGES = 40;

const escaped = (id: string): string =>
  id.replace(/[%:;]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
const unescaped = (text: string): string => text.replace(/%(25|3A|3B)/gi, (found) => decodeURIComponent(found));
const bound = (text: string): number | null => {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  return Number.isFinite(value) ? value : null;
};

/** A range that a chart can have: at least one end, the lower one first; null otherwise. */
export function rangeOf(low: string, high: string): YRange | null {
  const [min, max] = [bound(low), bound(high)];
  if (min === null && max === null) return null;
  return min !== null && max !== null && min >= max ? null : [min, max];
}

export function readRanges(text: string | undefined): ReadonlyMap<string, YRange> {
  const found = new Map<string, YRange>();
  for (const part of (text ?? "").split(";")) {
    const [id = "", low = "", high = ""] = part.split(":");
    const range = rangeOf(low, high);
    if (id !== "" && range) found.set(unescaped(id), range);
  }
  return found;
}

/** The text with the range of one chart changed, null: taken away; undefined when none is left. */
export function withRange(text: string | undefined, id: string, range: YRange | null): string | undefined {
  const ranges = new Map(readRanges(text));
  ranges.delete(id);
  if (range) ranges.set(id, range);
  const parts = [...ranges]
    .slice(-MAX_RANGES)
    .map(([name, [low, high]]) => `${escaped(name)}:${low ?? ""}:${high ?? ""}`);
  return parts.length > 0 ? parts.join(";") : undefined;
}
