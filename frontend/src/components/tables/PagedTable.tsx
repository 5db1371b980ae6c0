import type { ComponentProps } from "react";

import { LoadMore } from "../basics";
import { DataTable } from "./DataTable";

interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** A table of the pages that were fetched so far, and the button for the next one. */
export function PagedTable<T>({ query, ...table }: { query: Pages } & ComponentProps<typeof DataTable<T>>) {
  return (
    <>
      <DataTable {...table} />
      <LoadMore
        shown={table.rows.length}
        hasMore={query.hasNextPage}
        loading={query.isFetchingNextPage}
        onMore={() => void query.fetchNextPage()}
      />
    </>
  );
}
