/** The pages of single things that were visited last, remembered by this browser. */
import { readPref, writePref } from "./prefs";

export interface Place {
  /** Its address, without what is behind the question mark. */
  to: string;
  label: string;
}

const PREF = "recent";
const REMEMBERED = 8;

const isPlace = (value: unknown): value is Place =>
  typeof value === "object" &&
  value !== null &&
  "to" in value &&
  typeof value.to === "string" &&
  value.to.startsWith("/") &&
  "label" in value &&
  typeof value.label === "string";

/** The places, the newest first; none where what is stored cannot be read. */
export function recentPlaces(): Place[] {
  try {
    const stored: unknown = JSON.parse(readPref(PREF) ?? "[]");
    return Array.isArray(stored) ? stored.filter(isPlace).slice(0, REMEMBERED) : [];
  } catch {
    return [];
  }
}

/** Put a place first; the oldest are forgotten. */
export function rememberPlace(place: Place): void {
  const before = recentPlaces();
  if (before[0]?.to === place.to && before[0].label === place.label) return;
  const others = before.filter((one) => one.to !== place.to);
  writePref(PREF, JSON.stringify([place, ...others].slice(0, REMEMBERED)));
}

/** The next user of this browser did not go there. */
export const forgetPlaces = (): void => writePref(PREF, null);
