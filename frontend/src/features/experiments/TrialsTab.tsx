import { Button } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { TFunction } from "i18next";
import { type ReactNode, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, experimentTrials, type Trial } from "../../api/queries";
import { Empty, LoadMore, Meter } from "../../components/basics";
import { type Column, DataTable, type Ticks } from "../../components/tables/DataTable";
import { LinkButton } from "../../components/LinkButton";
import { QueryView } from "../../components/QueryView";
import { RowLink } from "../../components/tables/RowLink";
import { FlagBadge, StateBadge, stateWord } from "../../components/StateBadge";
import { Elapsed, Stamp } from "../../components/Time";
import { useSame, useStable } from "../../components/useStable";
import filterCss from "../../components/tables/filters.module.css";
import { reasonText } from "../../components/text/Message";
import * as format from "../../lib/format";
import { pickStates, TRIAL_STATES } from "../../lib/states";
import layout from "../../components/layout.module.css";
import { readConditions, writeConditions } from "./list/tableColumns";
import {
  canSort,
  firstColumns,
  MAX_HPARAMS,
  nextTrialSort,
  readTrialColumns,
  trialColumnName,
  writeTrialColumns,
} from "./trialColumns";
import { AddTrialFilter, TrialColumnPicker, trialColumnText, TrialConditions } from "./TrialFilters";

const value = (raw: unknown): string =>
  typeof raw === "number" ? format.num(raw) : typeof raw === "string" ? raw : JSON.stringify(raw);

export function TrialsTab({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/experiments/$experimentId" });
  const navigate = useNavigate({ from: "/experiments/$experimentId" });
  const states = pickStates(TRIAL_STATES, search.trialState);
  const where = readConditions(search.where);
  const best = data.metric_goal === "max" ? "-metric" : "metric";
  const sort = search.sort ?? (data.metric_name && data.only_trial_id === null ? best : "no");
  const filter = { state: states.length > 0 ? states : undefined, sort, where: where.length > 0 ? where : undefined };
  const query = useInfiniteQuery(experimentTrials(data.id, filter));
  const set = (change: Partial<typeof search>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const toggle = (state: (typeof TRIAL_STATES)[number]): void => {
    const next = states.includes(state) ? states.filter((s) => s !== state) : [...states, state];
    set({ trialState: next.length > 0 ? next.join(",") : undefined });
  };
  const present = TRIAL_STATES.filter((state) => data.num_trials_by_state[state]);
  const pages = query.data?.pages;
  const items = useMemo(() => pages?.flatMap((page) => page.items) ?? [], [pages]);
  const choice = { ...useNames(items), metricName: data.metric_name };
  const { hparams } = choice;
  const first = firstColumns(hparams, data.metric_name !== null);
  const columns = readTrialColumns(search.tcols) ?? first;
  const isNarrowed = states.length > 0 || where.length > 0;
  return (
    <>
      <div className={filterCss["filters"]}>
        {present.map((state) => (
          <button
            key={state}
            type="button"
            className={filterCss["chip"]}
            aria-pressed={states.includes(state)}
            onClick={() => toggle(state)}
          >
            {stateWord(t, state)} <span className="num">{data.num_trials_by_state[state]}</span>
          </button>
        ))}
        <TrialConditions conditions={where} onChange={(next) => set({ where: writeConditions(next) })} />
        <AddTrialFilter
          choice={choice}
          onAdd={(more) => set({ where: writeConditions([...new Set([...where, ...more])]) })}
        />
        <TrialColumnPicker
          columns={columns}
          choice={choice}
          onChange={(next) => set({ tcols: writeTrialColumns(next, first) })}
        />
      </div>
      <QueryView query={query}>
        {() => {
          if (items.length === 0) {
            return (
              <Empty
                title={t(isNarrowed ? "trials.noMatch" : "trials.none")}
                action={
                  isNarrowed ? (
                    <Button variant="default" onClick={() => set({ trialState: undefined, where: undefined })}>
                      {t("common.clearFilters")}
                    </Button>
                  ) : null
                }
              />
            );
          }
          const byState = (states.length > 0 ? states : present).map((state) => data.num_trials_by_state[state] ?? 0);
          return (
            <>
              {columns === first && hparams.length > MAX_HPARAMS ? (
                <p className="dim">{t("trials.someHparams", { shown: MAX_HPARAMS, all: hparams.length })}</p>
              ) : null}
              <TrialTable
                items={items}
                experiment={data}
                columns={columns}
                sort={sort}
                onSort={(next) => set({ sort: next })}
              />
              <LoadMore
                query={query}
                shown={items.length}
                all={where.length > 0 ? undefined : byState.reduce((sum, num) => sum + num, 0)}
              />
            </>
          );
        }}
      </QueryView>
    </>
  );
}

interface Names {
  hparams: string[];
  metrics: string[];
}

/** Hyperparameters and metrics of the trials; while a filter leaves none, those of the ones before. */
function useNames(items: readonly Trial[]): Names {
  const known = useRef<Names>({ hparams: [], metrics: [] });
  const names = useMemo((): Names => {
    const [hparams, metrics] = [new Set<string>(), new Set<string>()];
    for (const item of items) {
      for (const name in item.hparams) hparams.add(name);
      for (const name in item.summary) metrics.add(name);
    }
    return { hparams: [...hparams], metrics: [...metrics].toSorted() };
  }, [items]);
  if (items.length > 0) known.current = names;
  return known.current;
}

function useTicks(items: Trial[]): { ticked: readonly number[]; ticks: Ticks<Trial>; clear: () => void } {
  const { t } = useTranslation();
  const [ticked, setTicked] = useState<readonly number[]>([]);
  const { onAll } = useStable({ onAll: (on: boolean) => setTicked(on ? items.map((item) => item.id) : []) });
  const ticks = useMemo((): Ticks<Trial> => {
    const those = new Set(ticked);
    return {
      has: (item) => those.has(item.id),
      onToggle: (item) => setTicked(those.has(item.id) ? ticked.filter((id) => id !== item.id) : [...ticked, item.id]),
      onAll,
      label: (item) => t("trials.select", { no: item.no }),
      labelAll: (count) => t("trials.selectShown", { count }),
    };
  }, [ticked, onAll, t]);
  return { ticked, ticks, clear: () => setTicked([]) };
}

/** The state, and what marks a trial besides. */
function TrialState({ item }: { item: Trial }) {
  const { t } = useTranslation();
  return (
    <span
      title={item.reason || reasonText(item.pending_reason, item.pending_parts)}
      className={`${layout["inline"]} ${layout["tight"]}`}
    >
      <StateBadge state={item.state} />
      {item.is_impossible ? (
        <IconAlertTriangle size={15} color="var(--warn)" aria-label={t("trial.impossible")} data-testid="impossible" />
      ) : null}
      {item.flags.map((flag) => (
        <FlagBadge key={flag} flag={flag} />
      ))}
    </span>
  );
}

/** What stands in a cell. */
function cellOf(t: TFunction, id: string, item: Trial): ReactNode {
  if (id === "state") return <TrialState item={item} />;
  if (id === "metric") return format.num(item.metric);
  if (id === "restarts") return item.num_restarts > 0 ? item.num_restarts : "";
  if (id === "elapsed") return <Elapsed start={item.started_at} end={item.ended_at} />;
  if (id === "started" || id === "ended") {
    const at = id === "started" ? item.started_at : item.ended_at;
    return at === null ? format.MISSING : <Stamp at={at} />;
  }
  if (id === "step")
    return item.num_steps_planned ? (
      <Meter
        value={item.step / item.num_steps_planned}
        text={format.count(item.step)}
        label={t("trials.steps")}
        tone={item.state === "COMPLETED" ? "ok" : "run"}
      />
    ) : (
      <span className="num">{format.count(item.step)}</span>
    );
  const { name, of } = trialColumnName(id);
  if (of === null) return name in item.hparams ? value(item.hparams[name]) : "";
  return format.metric(name, item.summary[name]?.[of]);
}

function useColumns(
  experiment: ExperimentDetail,
  shown: readonly string[],
  sort: string,
  onSort: (sort: string) => void,
): Column<Trial>[] {
  const { t } = useTranslation();
  const ids = useSame(shown);
  const act = useStable({ onSort });
  const { best_trial_id: best, metric_goal: goal, metric_name: metric } = experiment;
  return useMemo(() => {
    const sorter = (id: string) => ({
      direction: sort === id ? ("asc" as const) : sort === `-${id}` ? ("desc" as const) : null,
      toggle: () => act.onSort(nextTrialSort(sort, id, goal)),
    });
    return [
      {
        id: "no",
        header: t("trials.trial"),
        lead: true,
        sort: sorter("no"),
        cell: (item) => (
          <RowLink item={{ trial: item.id }}>
            {t("trial.no", { no: item.no })}
            {item.id === best ? " ★" : ""}
          </RowLink>
        ),
      },
      ...ids.map((id): Column<Trial> => ({
        id,
        header: trialColumnText(t, id, metric),
        align: id === "state" || id === "step" ? undefined : "right",
        width: id === "step" ? 140 : undefined,
        sort: canSort(id) ? sorter(id) : undefined,
        cell: (item) => cellOf(t, id, item),
      })),
    ];
  }, [t, ids, sort, act, best, goal, metric]);
}

/** What can be done with the ticked trials. */
function TickedBar({ ticked, onClear }: { ticked: readonly number[]; onClear: () => void }) {
  const { t } = useTranslation();
  return (
    <div className={filterCss["filters"]} role="group" aria-label={t("bulk.label")}>
      <b role="status" className="num">
        {t("trials.selected", { count: ticked.length })}
      </b>
      <LinkButton to="/compare" search={{ trials: ticked.join(",") }} variant="default" data-testid="compare">
        {t("nav.compare")}
      </LinkButton>
      <Button variant="subtle" size="compact-xs" onClick={onClear}>
        {t("bulk.clear")}
      </Button>
    </div>
  );
}

export function TrialTable({
  items,
  experiment,
  columns: ids,
  sort,
  onSort,
}: {
  items: Trial[];
  experiment: ExperimentDetail;
  columns: readonly string[];
  sort: string;
  onSort: (sort: string) => void;
}) {
  const { t } = useTranslation();
  const { ticked, ticks, clear } = useTicks(items);
  const columns = useColumns(experiment, ids, sort, onSort);
  return (
    <>
      {ticked.length > 0 ? <TickedBar ticked={ticked} onClear={clear} /> : null}
      <DataTable
        rows={items}
        selection={items.length > 1 ? ticks : undefined}
        columns={columns}
        rowKey={(item) => item.id}
        label={t("experiments.trials")}
        testId="trials"
      />
    </>
  );
}
