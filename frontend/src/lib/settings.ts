/** Settings of a configuration as paths and values. Pure. */

/** Nested keys as paths: {a: {b: 1}} → a.b. Lists and empty objects are values. */
export function flatten(value: unknown, path = "", out = new Map<string, unknown>()): Map<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0) {
    for (const [key, inner] of Object.entries(value)) flatten(inner, path ? `${path}.${key}` : key, out);
  } else if (path) out.set(path, value);
  return out;
}

/** A value as it stands in the document. */
export const valueText = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

export interface Setting {
  path: string;
  text: string;
  isDefault: boolean;
}

/**
 * Return the settings of a resolved document that contain `find` in path or value: those that somebody
 * wrote first, then the defaults, each in the order of the document. `origins`: by path; a path that it
 * lacks stands below one that it has, or counts as written.
 */
export function settingsOf(config: unknown, origins: Readonly<Record<string, string>>, find = ""): Setting[] {
  const wanted = find.trim().toLowerCase();
  const all = [...flatten(config)].map(([path, value]) => ({
    path,
    text: valueText(value),
    isDefault: origins[path] === "default",
  }));
  return all
    .filter(({ path, text }) => `${path} ${text}`.toLowerCase().includes(wanted))
    .toSorted((a, b) => Number(a.isDefault) - Number(b.isDefault));
}

export interface SettingPair {
  path: string;
  /** "" where the configuration has no such setting. */
  here: string;
  there: string;
}

/** Return the settings in which two resolved documents differ, in the order of the first. */
export function settingPairs(here: unknown, there: unknown): SettingPair[] {
  const [a, b] = [flatten(here), flatten(there)];
  return [...new Set([...a.keys(), ...b.keys()])]
    .map((path) => ({ path, here: valueText(a.get(path)), there: valueText(b.get(path)) }))
    .filter((pair) => pair.here !== pair.there);
}
