import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { type Experiment, experimentCount, type ExperimentFilter, me } from "../../../api/queries";
import { UnmanagedBadge } from "../../../common/experiments/UnmanagedBadge";
import { LoadMore } from "../../../components/basics";
import { type Column, DataTable, lead, type Ticks } from "../../../components/tables/DataTable";
import { ExperimentLink } from "../../../components/ExperimentLink";
import { useSame, useStable } from "../../../components/useStable";
import tableCss from "../../../components/tables/dataTable.module.css";
import * as format from "../../../lib/format";
import type { Selection } from "./bulk";
import { BulkBar } from "./BulkBar";
import { cell, headText, type Narrow } from "./cells";
import { ExperimentGrid } from "./ExperimentGrid";
import css from "./table.module.css";
import { BUILT_IN, isBuiltIn, type TableColumn } from "./tableColumns";

interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
  refetch: () => unknown;
}

interface Props {
  items: Experiment[];
  filter: ExperimentFilter;
  columns: TableColumn[];
  sort: string | undefined;
  peek: number | undefined;
  isPhone: boolean;
  /** It is not refreshed by hints. */
  isStill: boolean;
  query: Pages;
  onSort: (sort: string | undefined) => void;
  onWidth: (id: string, width: number) => void;
  onPeek: (id: number | undefined) => void;
  narrow: Narrow;
}

/** Left out of a card on a phone. */
const WIDE = new Set(["labels", "searcher", "slots", "project", "owner", "notes"]);

/** The rows with what can be done to many of them: a grid, or cards on a phone. */
export function ExperimentList({
  items,
  filter,
  columns,
  sort,
  peek,
  isPhone,
  isStill,
  query,
  onSort,
  onWidth,
  onPeek,
  narrow,
}: Props) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const [selection, setSelection] = useState<Selection | null>(null);
  const ids = useMemo(() => new Set(selection?.kind === "ids" ? selection.ids : []), [selection]);
  const select = (next: Iterable<number>): void => {
    const chosen = [...next];
    setSelection(chosen.length > 0 ? { kind: "ids", ids: chosen } : null);
  };
  const act = useStable({
    // With all that match selected, a box leaves only the rows that are shown, without this one.
    onToggle: (item: Experiment) => {
      const before = selection?.kind === "filter" ? items.map(({ id }) => id) : [...ids];
      select(before.includes(item.id) ? before.filter((id) => id !== item.id) : [...before, item.id]);
    },
    onAll: (on: boolean) => select(on ? items.map((item) => item.id) : []),
    onSort,
    onWidth,
    onPeek,
    ...narrow,
  });
  // What rows are given stays the same while more of them come: only those that come are drawn.
  const ticks = useMemo(
    (): Ticks<Experiment> => ({
      has: (item) => selection?.kind === "filter" || ids.has(item.id),
      onToggle: act.onToggle,
      onAll: act.onAll,
      label: (item) => t("bulk.select", { name: item.name, id: item.id }),
      labelAll: (count) => t("bulk.selectShown", { count }),
    }),
    [selection, ids, act, t],
  );
  const shownColumns = useSame(columns);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const all = useQuery(experimentCount(filter, hasNextPage)).data;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  // What has not begun has no trial to show.
  const trials = items.flatMap((item) => (ticks.has(item) ? (item.only_trial_id ?? item.best_trial_id ?? []) : []));
  const isWhole = items.every((item) => ids.has(item.id));
  return (
    <div>
      {selection ? (
        <BulkBar
          selection={selection}
          filter={filter}
          hasMore={hasNextPage && isWhole}
          compare={trials}
          onSelect={setSelection}
        />
      ) : null}
      {isPhone ? (
        <>
          <DataTable
            rows={items}
            columns={columns.map((column) => cardColumn(t, column, narrow))}
            rowKey={(item) => item.id}
            label={t("nav.experiments")}
            testId="experiments"
          />
          <LoadMore query={query} shown={items.length} all={all} />
        </>
      ) : (
        <>
          <ExperimentGrid
            items={items}
            columns={shownColumns}
            sort={sort}
            ticks={user && user.role !== "viewer" ? ticks : undefined}
            peek={peek}
            hasMore={hasNextPage}
            onMore={more}
            onSort={act.onSort}
            onWidth={act.onWidth}
            onPeek={act.onPeek}
            narrow={act}
          />
          <div className={css["foot"]}>
            <span className="num">
              {hasNextPage
                ? all === undefined
                  ? t("table.shown", { n: format.count(items.length) })
                  : t("table.shownOf", {
                      n: format.count(items.length),
                      all: format.count(Math.max(all, items.length)),
                    })
                : t("table.all", { count: items.length })}
            </span>
            {isStill ? (
              <>
                <span>{t("table.still")}</span>
                <Button size="compact-xs" variant="default" onClick={() => query.refetch()}>
                  {t("table.refresh")}
                </Button>
              </>
            ) : null}
          </div>
        </>
      )}
    </div>
  );
}

function cardColumn(
  t: ReturnType<typeof useTranslation>["t"],
  { id }: TableColumn,
  narrow: Narrow,
): Column<Experiment> {
  const { name, of } = headText(t, id);
  if (id === "name") {
    return lead(id, name, (item) => (
      <span className={tableCss["named"]}>
        <ExperimentLink item={item} />
        <span className="dim num">#{item.id}</span> <UnmanagedBadge client={item.unmanaged} />
      </span>
    ));
  }
  return {
    id,
    header: of ? `${name} (${of})` : name,
    align: isBuiltIn(id) && !("right" in BUILT_IN[id]) ? undefined : "right",
    phone: WIDE.has(id) ? false : undefined,
    cell: (item) => cell(t, id, item, narrow),
  };
}
