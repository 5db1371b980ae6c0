import { Button, Switch, TextInput } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconPlus, IconSearch } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useRouter, useSearch } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type ExperimentFilter, experiments, PAGE, savedViews, type TableShape } from "../../api/queries";
import type { Early } from "../../app/lazyPage";
import type { ExperimentsSearch } from "../../app/search";
import { Empty, PageHead } from "../../components/basics";
import { SubmitLink } from "../../components/SubmitLink";
import { QueryView } from "../../components/QueryView";
import { stateWord } from "../../components/StateBadge";
import uiCss from "../../components/ui.module.css";
import { useTyped } from "../../components/useTyped";
import { EXPERIMENT_STATES, pickStates } from "../../lib/states";
import { ColumnPicker } from "./ColumnPicker";
import { AddCondition, MAX_CONDITIONS } from "./Conditions";
import { ExperimentList } from "./ExperimentList";
import { Peek } from "./Peek";
import css from "./table.module.css";
import {
  labelsOf,
  readColumns,
  readConditions,
  resized,
  toggled,
  valuesOf,
  writeColumns,
  writeConditions,
} from "./tableColumns";
import { Views } from "./Views";

/** What an address asks for: which experiments, in which order, with which columns. */
function askedFor(search: ExperimentsSearch) {
  const states = pickStates(EXPERIMENT_STATES, search.state);
  const labels = labelsOf(search.label);
  const where = readConditions(search.where);
  const columns = readColumns(search.cols);
  const filter: ExperimentFilter = {
    state: states.length > 0 ? states : undefined,
    project: search.project,
    q: search.q,
    label: labels.length > 0 ? labels : undefined,
    archived: search.archived,
    where: where.length > 0 ? where : undefined,
  };
  const values = valuesOf(columns);
  const shape: TableShape = { sort: search.sort, column: values.length > 0 ? values : undefined };
  return { states, labels, where, columns, filter, shape };
}

/** Ask for the first rows before the page is drawn; it finds the same question under way, or its answer. */
export function askEarly({ queryClient, search }: Early): Promise<void> {
  const { filter, shape } = askedFor(search as ExperimentsSearch);
  return queryClient.prefetchInfiniteQuery(experiments(filter, PAGE, shape));
}

/** Beyond so many pages a hint does not have all of them read anew. */
const LIVE_PAGES = 4;

export function Experiments() {
  const { t } = useTranslation();
  const router = useRouter();
  const search = useSearch({ from: "/app/experiments" });
  const navigate = useNavigate({ from: "/experiments" });
  const isPhone = useMediaQuery("(max-width: 720px)", undefined, { getInitialValueInEffect: false });
  const { labels, columns, filter, shape } = askedFor(search);
  const query = useInfiniteQuery(experiments(filter, PAGE, shape));
  const numPages = query.data?.pages.length ?? 0;
  const isStill = numPages > LIVE_PAGES;
  useLiveQueries(isStill ? null : "experiments", ["experiments"]);
  const set = (change: Partial<ExperimentsSearch>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
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
    void navigate({ search: { cols: search.cols, sort: search.sort }, replace: true });
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
            <SubmitLink icon={<IconPlus size={14} />} />
          </>
        }
      />
      <Filters search={search} set={set} onClear={isFiltered ? clear : null} />
      <div className={css["with"]}>
        <div>
          <QueryView query={query}>
            {(data) => {
              const items = data.pages.flatMap((page) => page.items);
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
                  <Empty title={t("experiments.empty")} action={<SubmitLink example={t("first.example")} />}>
                    {t("experiments.emptyHint")}
                  </Empty>
                );
              }
              return (
                <ExperimentList
                  key={JSON.stringify(filter)}
                  items={items}
                  filter={filter}
                  columns={columns}
                  sort={search.sort}
                  peek={search.peek}
                  isPhone={isPhone ?? false}
                  isStill={isStill}
                  query={query}
                  onSort={(sort) => set({ sort })}
                  onWidth={(id, width) => set({ cols: writeColumns(resized(columns, id, width)) })}
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

interface FiltersProps {
  search: ExperimentsSearch;
  set: (change: Partial<ExperimentsSearch>) => void;
  /** Null: nothing is filtered. */
  onClear: (() => void) | null;
}

/** What of all experiments is shown, and with which columns. */
function Filters({ search, set, onClear }: FiltersProps) {
  const { t } = useTranslation();
  const { states, labels, where, columns } = askedFor(search);
  const [text, setText] = useTyped(search.q, 250, (q) => set({ q }));
  const toggle = (state: (typeof EXPERIMENT_STATES)[number]): void => {
    const next = states.includes(state) ? states.filter((s) => s !== state) : [...states, state];
    set({ state: next.length > 0 ? next.join(",") : undefined });
  };
  return (
    <div className={uiCss["filters"]} role="search">
      <TextInput
        aria-label={t("experiments.find")}
        placeholder={t("experiments.find")}
        leftSection={<IconSearch size={14} />}
        value={text}
        onChange={(e) => setText(e.currentTarget.value)}
        w={230}
        data-testid="experiment-filter"
        data-filter
      />
      {EXPERIMENT_STATES.map((state) => (
        <button
          key={state}
          type="button"
          className={uiCss["chip"]}
          aria-pressed={states.includes(state)}
          onClick={() => toggle(state)}
        >
          {stateWord(t, state)}
        </button>
      ))}
      <Switch
        label={t("experiments.archived")}
        checked={search.archived ?? false}
        onChange={(e) => set({ archived: e.currentTarget.checked || undefined })}
      />
      {search.project ? (
        <button type="button" className={uiCss["chip"]} aria-pressed onClick={() => set({ project: undefined })}>
          {t("experiments.project")}: {search.project} ×
        </button>
      ) : null}
      {labels.map((label) => (
        <button
          key={label}
          type="button"
          className={uiCss["chip"]}
          aria-pressed
          onClick={() => set({ label: toggled(labels, label) })}
        >
          {label} ×
        </button>
      ))}
      {where.map((condition) => (
        <button
          key={condition}
          type="button"
          className={uiCss["chip"]}
          aria-pressed
          aria-label={t("table.where.remove", { condition })}
          onClick={() => set({ where: writeConditions(where.filter((one) => one !== condition)) })}
          data-testid="condition"
        >
          {condition} ×
        </button>
      ))}
      {onClear ? (
        <Button variant="subtle" size="compact-xs" onClick={onClear}>
          {t("common.clearFilters")}
        </Button>
      ) : null}
      {where.length < MAX_CONDITIONS ? (
        <AddCondition
          project={search.project}
          onAdd={(condition) =>
            set({ where: writeConditions([...where.filter((one) => one !== condition), condition]) })
          }
        />
      ) : null}
      <ColumnPicker
        columns={columns}
        project={search.project}
        onChange={(next) => set({ cols: next === null ? undefined : writeColumns(next) })}
      />
    </div>
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
