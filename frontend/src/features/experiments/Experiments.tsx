import "../../i18n/en/experiments";
import "../../i18n/en/overview";

import { Button, Checkbox, Popover, Switch, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconColumns3, IconPlus, IconSearch } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type Experiment, type ExperimentFilter, experiments, me } from "../../api/queries";
import { Empty, LoadMore, Meter, PageHead, TrialsBar } from "../../components/basics";
import { type Column, DataTable, type Ticks } from "../../components/DataTable";
import { ExperimentLink } from "../../components/ExperimentLink";
import { LinkButton } from "../../components/LinkButton";
import { QueryView } from "../../components/QueryView";
import { StateBadge, stateWord } from "../../components/StateBadge";
import { Ago, Elapsed } from "../../components/Time";
import uiCss from "../../components/ui.module.css";
import * as format from "../../lib/format";
import { EXPERIMENT_STATES, pickStates } from "../../lib/states";
import type { Selection } from "./bulk";
import { BulkBar } from "./BulkBar";
import { hiddenOf, labelsOf, labelText, OPTIONAL, toggled } from "./columns";

export function Experiments() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/experiments" });
  const navigate = useNavigate({ from: "/experiments" });
  const states = pickStates(EXPERIMENT_STATES, search.state);
  const labels = labelsOf(search.label);
  const hidden = hiddenOf(search.hide);
  const filter: ExperimentFilter = { state: states.length > 0 ? states : undefined, project: search.project, q: search.q, label: labels.length > 0 ? labels : undefined, archived: search.archived };
  const query = useInfiniteQuery(experiments(filter));
  useLiveQueries("experiments", ["experiments"]);
  const [text, setText] = useState(search.q ?? "");
  const [debounced] = useDebouncedValue(text, 250);
  const set = (change: Partial<typeof search>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  useEffect(() => {
    if ((search.q ?? "") !== debounced) set({ q: debounced || undefined });
    // oxlint-disable-next-line react/exhaustive-deps -- only typing moves the filter into the URL
  }, [debounced]);
  const clear = (): void => {
    setText("");
    void navigate({ search: { hide: search.hide }, replace: true });
  };
  const filtered = states.length > 0 || search.q !== undefined || search.project !== undefined || labels.length > 0 || search.archived === true;
  const toggle = (state: (typeof EXPERIMENT_STATES)[number]): void => {
    const next = states.includes(state) ? states.filter((s) => s !== state) : [...states, state];
    set({ state: next.length > 0 ? next.join(",") : undefined });
  };
  return (
    <>
      <PageHead
        title={t("nav.experiments")}
        actions={
          <LinkButton to="/submit" leftSection={<IconPlus size={14} />}>
            {t("nav.submit")}
          </LinkButton>
        }
      />
      <div className={uiCss["filters"]} role="search">
        <TextInput aria-label={t("experiments.find")} placeholder={t("experiments.find")} leftSection={<IconSearch size={14} />} value={text} onChange={(e) => setText(e.currentTarget.value)} w={230} data-testid="experiment-filter" data-filter />
        {EXPERIMENT_STATES.map((state) => (
          <button key={state} type="button" className={uiCss["chip"]} aria-pressed={states.includes(state)} onClick={() => toggle(state)}>
            {stateWord(t, state)}
          </button>
        ))}
        <Switch label={t("experiments.archived")} checked={search.archived ?? false} onChange={(e) => set({ archived: e.currentTarget.checked || undefined })} />
        {search.project ? (
          <button type="button" className={uiCss["chip"]} aria-pressed onClick={() => set({ project: undefined })}>
            {t("experiments.project")}: {search.project} ×
          </button>
        ) : null}
        {labels.map((label) => (
          <button key={label} type="button" className={uiCss["chip"]} aria-pressed onClick={() => set({ label: toggled(labels, label) })}>
            {label} ×
          </button>
        ))}
        {filtered ? (
          <Button variant="subtle" size="compact-xs" onClick={clear}>
            {t("common.clearFilters")}
          </Button>
        ) : null}
        <Popover position="bottom-end" withinPortal={false} shadow="md">
          <Popover.Target>
            <Button variant="subtle" color="gray" size="compact-xs" leftSection={<IconColumns3 size={14} aria-hidden />} data-testid="columns">
              {t("experiments.columns")}
            </Button>
          </Popover.Target>
          <Popover.Dropdown>
            {OPTIONAL.map((name) => (
              <Checkbox key={name} my={6} label={t(`experiments.${name}`)} checked={!hidden.includes(name)} onChange={() => set({ hide: toggled(hidden, name) })} data-testid={`column-${name}`} />
            ))}
          </Popover.Dropdown>
        </Popover>
      </div>
      <QueryView query={query}>
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          if (items.length === 0) {
            return filtered ? (
              <Empty title={t("experiments.noMatch")} action={<Button variant="default" onClick={clear}>{t("common.clearFilters")}</Button>} />
            ) : (
              <Empty title={t("experiments.empty")} action={<LinkButton to="/submit" search={{ template: "ddp" }}>{t("first.example")}</LinkButton>}>
                {t("experiments.emptyHint")}
              </Empty>
            );
          }
          return (
            <>
              <ExperimentTable key={JSON.stringify(filter)} items={items} filter={filter} hasMore={query.hasNextPage} hidden={hidden} onProject={(project) => set({ project })} onLabel={(label) => set({ label: labels.includes(label) ? search.label : toggled(labels, label) })} />
              <LoadMore shown={items.length} hasMore={query.hasNextPage} loading={query.isFetchingNextPage} onMore={() => void query.fetchNextPage()} />
            </>
          );
        }}
      </QueryView>
    </>
  );
}

function ExperimentTable({ items, filter, hasMore, hidden, onProject, onLabel }: { items: Experiment[]; filter: ExperimentFilter; hasMore: boolean; hidden: readonly string[]; onProject: (project: string) => void; onLabel: (label: string) => void }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const [selection, setSelection] = useState<Selection | null>(null);
  const ids = new Set(selection?.kind === "ids" ? selection.ids : []);
  const select = (next: Iterable<number>): void => {
    const chosen = [...next];
    setSelection(chosen.length > 0 ? { kind: "ids", ids: chosen } : null);
  };
  const ticks: Ticks<Experiment> = {
    has: (item) => selection?.kind === "filter" || ids.has(item.id),
    // With all that match selected, a box leaves only the rows that are shown, without this one.
    onToggle: (item) => {
      const before = selection?.kind === "filter" ? items.map(({ id }) => id) : [...ids];
      select(before.includes(item.id) ? before.filter((id) => id !== item.id) : [...before, item.id]);
    },
    onAll: (on) => select(on ? items.map((item) => item.id) : []),
    label: (item) => t("bulk.select", { name: item.name, id: item.id }),
    labelAll: t("bulk.selectShown", { count: items.length }),
  };
  const columns: Column<Experiment>[] = [
    {
      id: "name",
      header: t("experiments.name"),
      lead: true,
      cell: (item) => (
        <span className={uiCss["named"]}>
          <ExperimentLink item={item} />
          <span className="dim num">#{item.id}</span>
        </span>
      ),
    },
    { id: "state", header: t("experiments.state"), cell: (item) => <span title={item.reason}><StateBadge state={item.state} /></span> },
    ...(items.some((item) => Object.keys(item.labels).length > 0)
      ? [
          {
            id: "labels",
            header: t("experiments.labels"),
            phone: false as const,
            cell: (item: Experiment) => (
              <span className={uiCss["tags"]}>
                {Object.entries(item.labels).map(([name, value]) => (
                  <button key={name} type="button" className={uiCss["tag"]} title={t("experiments.onlyLabel", { label: labelText(name, value) })} onClick={() => onLabel(labelText(name, value))}>
                    {labelText(name, value)}
                  </button>
                ))}
              </span>
            ),
          },
        ]
      : []),
    { id: "searcher", header: t("experiments.searcher"), phone: false, cell: (item) => <span className={uiCss["tight"]}>{t(`searcher.${item.searcher}` as "searcher.asha", { defaultValue: item.searcher })}</span> },
    {
      id: "trials",
      header: t("experiments.trials"),
      width: 150,
      cell: (item) => item.only_trial_id ? <span className="num">1</span> : (
        <span style={{ display: "inline-flex", gap: 8, alignItems: "center", width: "100%", minWidth: 110 }}>
          <TrialsBar byState={item.num_trials_by_state} planned={item.num_trials_planned} />
          <span className="num dim" style={{ whiteSpace: "nowrap" }}>
            {item.num_trials}
            {item.num_trials_planned !== null && item.num_trials_planned > item.num_trials ? `/${item.num_trials_planned}` : ""}
          </span>
        </span>
      ),
    },
    {
      id: "best",
      header: t("experiments.best"),
      align: "right",
      cell: (item) =>
        item.best_metric === null ? (
          format.MISSING
        ) : (
          <span title={item.metric_name ?? ""}>
            {format.num(item.best_metric)} <span className="dim mono">{item.metric_name ?? ""}</span>
          </span>
        ),
    },
    { id: "progress", header: t("experiments.progress"), width: 130, cell: (item) => <Meter value={item.progress} tone={item.state === "COMPLETED" ? "ok" : item.state === "FAILED" ? "bad" : "run"} label={t("experiments.progress")} /> },
    { id: "slots", header: t("experiments.slots"), phone: false, align: "right", cell: (item) => `${item.slots_per_trial} ${item.slot_type}` },
    {
      id: "project",
      header: t("experiments.project"),
      phone: false,
      cell: (item) => (
        <button type="button" className={uiCss["sort"]} onClick={() => onProject(item.project)} title={t("experiments.onlyProject", { project: item.project })}>
          {item.project}
        </button>
      ),
    },
    { id: "owner", header: t("experiments.owner"), phone: false, cell: (item) => item.owner ?? format.MISSING },
    { id: "elapsed", header: t("experiments.elapsed"), align: "right", cell: (item) => <Elapsed start={item.started_at} end={item.ended_at} /> },
    { id: "created", header: t("experiments.created"), align: "right", cell: (item) => <Ago at={item.created_at} /> },
  ];
  // What has not begun has no trial to show.
  const trials = items.flatMap((item) => (ticks.has(item) ? (item.only_trial_id ?? item.best_trial_id ?? []) : []));
  const isWhole = items.every((item) => ids.has(item.id));
  return (
    <>
      {selection ? <BulkBar selection={selection} filter={filter} hasMore={hasMore && isWhole} compare={trials} onSelect={setSelection} /> : null}
      <DataTable rows={items} selection={user && user.role !== "viewer" ? ticks : undefined} columns={columns.filter((column) => !hidden.includes(column.id))} rowKey={(item) => item.id} label={t("nav.experiments")} testId="experiments" />
    </>
  );
}
