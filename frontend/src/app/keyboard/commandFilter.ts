/** Which entries of the command menu a query finds. Pure. */

export interface Entry {
  id: string;
  label: string;
  description?: string;
  /** More words to find it by. */
  keywords?: string;
}

/** How well an entry fits: 3 its label begins with the query, 2 a word of it does, 1 it is somewhere, 0 not at all. */
function fit(entry: Entry, query: string): number {
  const label = entry.label.toLowerCase();
  if (label.startsWith(query)) return 3;
  if (label.split(/[\s/._:-]+/).some((word) => word.startsWith(query))) return 2;
  const all = `${label}\n${entry.description ?? ""}\n${entry.keywords ?? ""}`.toLowerCase();
  return query.split(/\s+/).every((word) => all.includes(word)) ? 1 : 0;
}

/** At most `limit` entries, the best first and otherwise in their order; all of them fit an empty query. */
export function matching<Found extends Entry>(entries: readonly Found[], query: string, limit: number): Found[] {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return entries.slice(0, limit);
  return entries
    .map((entry) => ({ entry, score: fit(entry, wanted) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ entry }) => entry);
}

/**
 * What a query names as the command line does: "4" or "#4" an experiment, "4.2" and "name.2" a trial of
 * it. Null for other words.
 */
export function named(query: string): { experiment: number | string; trialNo: number | null } | null {
  const text = query.trim().replace(/^#/, "");
  const trial = /^(.+)\.(\d{1,9})$/.exec(text);
  const experiment = trial?.[1] ?? text;
  if (/^[1-9]\d{0,14}$/.test(experiment))
    return { experiment: Number(experiment), trialNo: trial ? Number(trial[2]) : null };
  return trial ? { experiment, trialNo: Number(trial[2]) } : null;
}
