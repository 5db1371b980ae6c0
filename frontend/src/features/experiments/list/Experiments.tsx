import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useRouter, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useRef } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../../api/liveHooks";
import { experiments, PAGE, savedViews } from "../../../api/queries";
import type { ExperimentsSearch } from "../../../app/search";
import { LoadDemo } from "../../../common/demo/DemoData";
import { Empty, PageHead } from "../../../components/basics";
import { LinkButton } from "../../../components/LinkButton";
import { SubmitLink } from "../../../components/SubmitLink";
import { QueryView } from "../../../components/QueryView";
import { usePhone } from "../../../components/tables/usePhone";
import { askedFor } from "./asked";
import { ExperimentList } from "./ExperimentList";
import { Filters } from "./Filters";
import { statisticsOf } from "./groups";
import { GroupTable } from "./GroupTable";
import { Peek } from "./Peek";
import css from "./table.module.css";
import { addedCondition, columnsFor, resized, toggled, writeColumns } from "./tableColumns";
import { Views } from "./Views";

/** Beyond so many pages a hint does not have all of them read anew. */
const LIVE_PAGES = 4;

export function Experiments() {
  const { t } = useTranslation();
  const router = useRouter();
  const search = useSearch({ from: "/app/experiments" });
  const navigate = useNavigate({ from: "/experiments" });
  const isPhone = usePhone();
  const asked = askedFor(search);
  const { labels, columns, filter, shape } = asked;
  const query = useInfiniteQuery(experiments(filter, PAGE, shape));
  const pages = query.data?.pages;
  const items = useMemo(() => pages?.flatMap((page) => page.items) ?? [], [pages]);
  const numPages = pages?.length ?? 0;
  const isStill = numPages > LIVE_PAGES;
  useLiveQueries(isStill ? null : "experiments", ["experiments"]);
  const set = (change: Partial<ExperimentsSearch>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const open = (change: Partial<ExperimentsSearch>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }) });
  };
  const address = router
    .buildLocation({ to: "/experiments", search: { ...search, peek: undefined } })
    .searchStr.replace(/^\?/, "");
  const openView = (wanted: string): void => {
    const next = router.options.parseSearch?.(wanted) as ExperimentsSearch;
    void navigate({ search: next, replace: false });
  };
  useDefaultView(address === "" && search.peek === undefined, openView);
  const clear = (): void => {
    void navigate({ search: { cols: search.cols, sort: search.sort, group: search.group }, replace: true });
  };
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  return (
    <>
      <PageHead
        guide="guides/dashboard#the-table-of-experiments"
        title={t("nav.experiments")}
        actions={
          <>
            <Views query={address} onOpen={openView} />
            <LinkButton to="/sessions" variant="default">
              {t("nav.sessions")}
            </LinkButton>
            <LinkButton to="/schedules" variant="default">
              {t("nav.schedules")}
            </LinkButton>
            <SubmitLink icon={<IconPlus size={14} />} />
          </>
        }
      />
      <Filters search={search} asked={asked} set={set} onClear={isFiltered ? clear : null} />
      <div className={css["with"]}>
        <div>
          <QueryView query={query}>
            {() => {
              if (items.length === 0) {
                return isFiltered ? (
                  <Empty
                    title={t("experiments.noMatch")}
                    action={
                      <Button variant="default" onClick={clear}>
                        {t("common.clearFilters")}
                      </Button>
                    }
                  />
                ) : (
                  <Empty
                    title={t("experiments.empty")}
                    action={
                      <>
                        <SubmitLink example={t("first.example")} />
                        <LoadDemo />
                      </>
                    }
                  >
                    {t("experiments.emptyHint")}
                  </Empty>
                );
              }
              if (search.group !== undefined)
                return (
                  <GroupTable
                    by={search.group}
                    filter={filter}
                    columns={statisticsOf(columns, search.group, items)}
                    onOpen={(condition) => open({ group: undefined, where: addedCondition(search.where, condition) })}
                  />
                );
              return (
                <ExperimentList
                  key={JSON.stringify(filter)}
                  items={items}
                  filter={filter}
                  columns={columnsFor(search.cols, items)}
                  sort={search.sort}
                  peek={search.peek}
                  isPhone={isPhone}
                  isStill={isStill}
                  query={query}
                  onSort={(sort) => set({ sort })}
                  onWidth={(id, width) =>
                    set({ cols: writeColumns(resized(columnsFor(search.cols, items), id, width)) })
                  }
                  onPeek={(peek) => set({ peek })}
                  narrow={{
                    onProject: (project) => set({ project }),
                    onLabel: (label) => set({ label: labels.includes(label) ? search.label : toggled(labels, label) }),
                  }}
                />
              );
            }}
          </QueryView>
        </div>
        {search.peek ? <Peek id={search.peek} onClose={() => set({ peek: undefined })} /> : null}
      </div>
    </>
  );
}

/** A page that is opened without anything in its address opens with the view that was chosen for that. */
function useDefaultView(isPlain: boolean, open: (query: string) => void): void {
  const views = useQuery({ ...savedViews, enabled: isPlain }).data;
  const isDecided = useRef(!isPlain);
  useEffect(() => {
    if (isDecided.current || views === undefined) return;
    isDecided.current = true;
    const view = views.find((one) => one.page === "experiments" && one.is_mine && one.is_default);
    if (isPlain && view && view.query !== "") open(view.query);
    // oxlint-disable-next-line react/exhaustive-deps -- once, when the views are known
  }, [views]);
}
