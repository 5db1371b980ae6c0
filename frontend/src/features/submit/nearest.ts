/** Names that are like what was typed, the likeliest first. Pure. */

/** Letters that were typed wrongly, left out, added or swapped (optimal string alignment). */
export function distance(a: string, b: string): number {
  let [before, last] = [[] as number[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (last[j - 1] ?? 0) + Number(a[i - 1] !== b[j - 1]);
      let least = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, change);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (before[j - 2] ?? 0) + 1);
      row.push(least);
    }
    [before, last] = [last, row];
  }
  return last[b.length] ?? 0;
}

const isSubsequence = (typed: string, name: string): boolean => {
  let at = 0;
  for (const char of name) if (char === typed[at]) at += 1;
  return at === typed.length;
};

/** 0: as typed; null: not alike. */
export function rank(typed: string, name: string): number | null {
  const [a, b] = [typed.toLowerCase(), name.toLowerCase()];
  if (a === "" || b.startsWith(a)) return 0;
  if (b.includes(a)) return 1;
  if (a.length > 1 && isSubsequence(a, b)) return 2;
  // Of a longer name only the beginning was typed so far.
  const most = a.length > 5 ? 2 : a.length > 2 ? 1 : 0;
  const least = Math.min(distance(a, b), distance(a, b.slice(0, a.length)));
  return least <= most ? 2 + least : null;
}

/** Those that are alike, in order; equal ones in the order given. */
export function nearest<T>(typed: string, items: readonly T[], nameOf: (item: T) => string): T[] {
  return items
    .flatMap((item) => {
      const found = rank(typed, nameOf(item));
      return found === null ? [] : [{ item, found }];
    })
    .toSorted((a, b) => a.found - b.found)
    .map(({ item }) => item);
}
