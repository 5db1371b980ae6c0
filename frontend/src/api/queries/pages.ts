/** Lists that come in pages. */
export const PAGE = 50;

export interface PageOf<T> {
  items: T[];
  next: string | null;
}

/** Every page up to `max` items, for things a page shows whole (nodes, ranks). */
export async function allPages<T>(read: (cursor: string | undefined) => Promise<PageOf<T>>, max = 5000): Promise<PageOf<T>> {
  const items: T[] = [];
  let next: string | null = null;
  do {
    const page: PageOf<T> = await read(next ?? undefined);
    items.push(...page.items);
    next = page.next;
  } while (next !== null && items.length < max);
  return { items, next };
}
