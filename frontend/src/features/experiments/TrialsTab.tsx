import { Button } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, experimentTrials, type Trial } from "../../api/queries";
import { Empty, LoadMore, Meter } from "../../components/basics";
import { type Column, DataTable, type Ticks } from "../../components/DataTable";
import { LinkButton } from "../../components/LinkButton";
import { QueryView } from "../../components/QueryView";
import { FlagBadge, StateBadge, stateWord } from "../../components/StateBadge";
import { Elapsed } from "../../components/Time";
import uiCss from "../../components/ui.module.css";
import { reasonText } from "../../components/Message";
import * as format from "../../lib/format";
import { pickStates, TRIAL_STATES } from "../../lib/states";
import layout from "../../components/layout.module.css";

const MAX_HPARAMS = 8;
const value = (raw: unknown): string =>
  typeof raw === "number" ? format.num(raw) : typeof raw === "string" ? raw : JSON.stringify(raw);

export function TrialsTab({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/experiments/$experimentId" });
  const navigate = useNavigate({ from: "/experiments/$experimentId" });
  const states = pickStates(TRIAL_STATES, search.trialState);
  const best: "metric" | "-metric" = data.metric_goal === "max" ? "-metric" : "metric";
  const sort = search.sort ?? (data.metric_name && data.only_trial_id === null ? best : "no");
  const query = useInfiniteQuery(experimentTrials(data.id, { state: states.length > 0 ? states : undefined, sort }));
  const set = (change: Partial<typeof search>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const toggle = (state: (typeof TRIAL_STATES)[number]): void => {
    const next = states.includes(state) ? states.filter((s) => s !== state) : [...states, state];
    set({ trialState: next.length > 0 ? next.join(",") : undefined });
  };
  const present = TRIAL_STATES.filter((state) => data.num_trials_by_state[state]);
  return (
    <>
      <div className={uiCss["filters"]}>
        {present.map((state) => (
          <button
            key={state}
            type="button"
            className={uiCss["chip"]}
            aria-pressed={states.includes(state)}
            onClick={() => toggle(state)}
          >
            {stateWord(t, state)} <span className="num">{data.num_trials_by_state[state]}</span>
          </button>
        ))}
      </div>
      <QueryView query={query}>
        {(pages) => {
          const items = pages.pages.flatMap((page) => page.items);
          if (items.length === 0) {
            return (
              <Empty
                title={t(states.length > 0 ? "trials.noMatch" : "trials.none")}
                action={
                  states.length > 0 ? (
                    <Button variant="default" onClick={() => set({ trialState: undefined })}>
                      {t("common.clearFilters")}
                    </Button>
                  ) : null
                }
              />
            );
          }
          return (
            <>
              <TrialTable items={items} experiment={data} sort={sort} onSort={(next) => set({ sort: next })} />
              <LoadMore
                shown={items.length}
                all={(states.length > 0 ? states : present).reduce(
                  (sum, state) => sum + (data.num_trials_by_state[state] ?? 0),
                  0,
                )}
                hasMore={query.hasNextPage}
                loading={query.isFetchingNextPage}
                onMore={() => void query.fetchNextPage()}
              />
            </>
          );
        }}
      </QueryView>
    </>
  );
}

type Sort = "no" | "-no" | "metric" | "-metric";

function useTicks(items: Trial[]): { ticked: readonly number[]; ticks: Ticks<Trial>; clear: () => void } {
  const { t } = useTranslation();
  const [ticked, setTicked] = useState<readonly number[]>([]);
  const ticks: Ticks<Trial> = {
    has: (item) => ticked.includes(item.id),
    onToggle: (item) =>
      setTicked(ticked.includes(item.id) ? ticked.filter((id) => id !== item.id) : [...ticked, item.id]),
    onAll: (on) => setTicked(on ? items.map((item) => item.id) : []),
    label: (item) => t("trials.select", { no: item.no }),
    labelAll: t("trials.selectShown", { count: items.length }),
  };
  return { ticked, ticks, clear: () => setTicked([]) };
}

function useColumns(
  experiment: ExperimentDetail,
  hparams: string[],
  sort: Sort,
  onSort: (sort: Sort) => void,
): Column<Trial>[] {
  const { t } = useTranslation();
  const sorter = (key: "no" | "metric") => ({
    direction: sort === key ? ("asc" as const) : sort === `-${key}` ? ("desc" as const) : null,
    toggle: () => onSort(sort === key ? `-${key}` : key),
  });
  return [
    {
      id: "no",
      header: t("trials.trial"),
      lead: true,
      sort: sorter("no"),
      cell: (item) => (
        <Link to="/trials/$trialId" params={{ trialId: String(item.id) }}>
          {t("trial.no", { no: item.no })}
          {item.id === experiment.best_trial_id ? " ★" : ""}
        </Link>
      ),
    },
    {
      id: "state",
      header: t("experiments.state"),
      cell: (item) => (
        <span
          title={item.reason || reasonText(item.pending_reason, item.pending_parts)}
          className={`${layout["inline"]} ${layout["tight"]}`}
        >
          <StateBadge state={item.state} />
          {item.is_impossible ? (
            <IconAlertTriangle
              size={15}
              color="var(--warn)"
              aria-label={t("trial.impossible")}
              data-testid="impossible"
            />
          ) : null}
          {item.flags.map((flag) => (
            <FlagBadge key={flag} flag={flag} />
          ))}
        </span>
      ),
    },
    ...(experiment.metric_name
      ? [
          {
            id: "metric",
            header: experiment.metric_name,
            align: "right" as const,
            sort: sorter("metric"),
            cell: (item: Trial) => format.num(item.metric),
          },
        ]
      : []),
    ...hparams.map((key): Column<Trial> => ({
      id: `h:${key}`,
      header: key,
      align: "right",
      cell: (item) => (key in item.hparams ? value(item.hparams[key]) : ""),
    })),
    {
      id: "step",
      header: t("trials.steps"),
      width: 140,
      cell: (item) =>
        item.num_steps_planned ? (
          <Meter
            value={item.step / item.num_steps_planned}
            text={format.count(item.step)}
            label={t("trials.steps")}
            tone={item.state === "COMPLETED" ? "ok" : "run"}
          />
        ) : (
          <span className="num">{format.count(item.step)}</span>
        ),
    },
    {
      id: "restarts",
      header: t("trial.stat.restarts"),
      align: "right",
      cell: (item) => (item.num_restarts > 0 ? item.num_restarts : ""),
    },
    {
      id: "elapsed",
      header: t("experiments.elapsed"),
      align: "right",
      cell: (item) => <Elapsed start={item.started_at} end={item.ended_at} />,
    },
  ];
}

/** What can be done with the ticked trials. */
function TickedBar({ ticked, onClear }: { ticked: readonly number[]; onClear: () => void }) {
  const { t } = useTranslation();
  return (
    <div className={uiCss["filters"]} role="group" aria-label={t("bulk.label")}>
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
  sort,
  onSort,
}: {
  items: Trial[];
  experiment: ExperimentDetail;
  sort: Sort;
  onSort: (sort: Sort) => void;
}) {
  const { t } = useTranslation();
  const { ticked, ticks, clear } = useTicks(items);
  const all = [...new Set(items.flatMap((item) => Object.keys(item.hparams)))];
  const hparams = all.slice(0, MAX_HPARAMS);
  const columns = useColumns(experiment, hparams, sort, onSort);
  return (
    <>
      {all.length > hparams.length ? (
        <p className="dim">{t("trials.someHparams", { shown: hparams.length, all: all.length })}</p>
      ) : null}
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
