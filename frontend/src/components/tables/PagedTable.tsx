import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ComponentProps, ReactNode } from "react";

import { LoadMore, type Pages } from "../basics";
import { QueryView } from "../QueryView";
import { DataTable } from "./DataTable";

/** A table of the pages that were fetched so far, and the button for the next one. */
export function PagedTable<T>({ query, ...table }: { query: Pages } & ComponentProps<typeof DataTable<T>>) {
  return (
    <>
      <DataTable {...table} />
      <LoadMore query={query} shown={table.rows.length} />
    </>
  );
}

interface ListProps<T> extends Omit<ComponentProps<typeof DataTable<T>>, "rows"> {
  query: UseInfiniteQueryResult<InfiniteData<{ items: T[] }>>;
  /** What stands in place of a table without rows. */
  empty: ReactNode;
}

/** Such a table with what stands in its place: while it is fetched, when that failed, and when there are no rows. */
export function PagedList<T>({ query, empty, ...table }: ListProps<T>) {
  return (
    <QueryView query={query}>
      {(data) => {
        const rows = data.pages.flatMap((page) => page.items);
        return rows.length === 0 ? empty : <PagedTable query={query} rows={rows} {...table} />;
      }}
    </QueryView>
  );
}
