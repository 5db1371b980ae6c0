import { BASE } from "../../lib/address";
/** Lists that come in pages. */
export const PAGE = 50;

/** Most entries of a list that a page loads whole; where there are more, `Cuts` says so. */
export const ALL_MAX = 20_000;

export interface PageOf<T> {
  items: T[];
  next: string | null;
}

/** Lists that are loaded whole: the last part of a key in `lists.` of the texts. */
export type ListName =
  | "checkpointExports"
  | "diagnoses"
  | "groups"
  | "joinTokens"
  | "nodes"
  | "processGroups"
  | "ranks"
  | "scalingReports"
  | "tokens"
  | "users"
  | "views";

interface Cut {
  name: ListName;
  /** Of the page on which it was asked for. */
  path: string;
}

let cuts: readonly Cut[] = [];
const listeners = new Set<() => void>();

/** Lists of which only ALL_MAX entries were loaded, for `useSyncExternalStore`. */
export const cutLists = {
  get: (): readonly Cut[] => cuts,
  subscribe: (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

function note(name: ListName, path: string, isCut: boolean): void {
  const others = cuts.filter((cut) => cut.name !== name || cut.path !== path);
  if (!isCut && others.length === cuts.length) return;
  cuts = isCut ? [...others, { name, path }] : others;
  for (const listener of listeners) listener();
}

/** Every page of a list that is shown whole, up to `max` entries. */
export async function allPages<T>(
  name: ListName,
  read: (cursor: string | undefined) => Promise<PageOf<T>>,
  max = ALL_MAX,
): Promise<PageOf<T>> {
  const path = location.pathname.replace(BASE, "");
  const items: T[] = [];
  let next: string | null = null;
  do {
    const page: PageOf<T> = await read(next ?? undefined);
    for (const item of page.items) items.push(item);
    next = page.next;
  } while (next !== null && items.length < max);
  note(name, path, next !== null);
  return { items, next };
}
