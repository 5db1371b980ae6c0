import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { client, unwrap } from "../../api/client";
import { type ExperimentDetail, experimentTrials, nodes } from "../../api/queries";
import type { LogSearch } from "../../app/search";
import { isTerminal } from "../../lib/states";
import { LogPane } from "../../common/logs/LogPane";
import { type LogSource, streamsQuery, trialsOf } from "../../common/logs/logQuery";

/** Trials that are offered by name; others are reached by the table of trials. */
const OFFERED_TRIALS = 200;

export function LogsTab({ experiment }: { experiment: ExperimentDetail }) {
  const search = useSearch({ from: "/app/experiments/$experimentId" });
  const navigate = useNavigate({ from: "/experiments/$experimentId" });
  return (
    <ExperimentLog
      experiment={experiment}
      search={search}
      set={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
    />
  );
}

/** The lines of all trials of an experiment as one log. */
export function ExperimentLog({
  experiment: data,
  search,
  set,
}: {
  experiment: ExperimentDetail;
  search: LogSearch;
  set: (change: Partial<LogSearch>) => void;
}) {
  const trials =
    useInfiniteQuery(experimentTrials(data.id, { sort: "-no" }, OFFERED_TRIALS)).data?.pages.flatMap(
      (page) => page.items,
    ) ?? [];
  const known = useQuery(nodes).data ?? [];
  const source: LogSource = {
    key: `experiment:${data.id}`,
    topic: null,
    isOver: isTerminal(data.state),
    attempts: Array.from({ length: Math.max(1, ...trials.map((trial) => trial.attempt_no)) }, (_, i) => i + 1),
    waitingFor: data.state === "QUEUED" ? data.reason : "",
    trials: trials.map((trial) => trial.no),
    page: (query, signal) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/logs", {
          params: { path: { experiment_id: data.id }, query },
          signal,
        }),
      ),
    histogram: (wanted, signal) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/logs/histogram", {
          params: { path: { experiment_id: data.id }, query: { ...streamsQuery(wanted), trial: trialsOf(wanted) } },
          signal,
        }),
      ),
  };
  return (
    <LogPane
      source={source}
      search={search}
      set={set}
      streams={[]}
      ranks={Array.from({ length: data.slots_per_trial + 1 }, (_, i) => i - 1)}
      nodes={known.map((node) => node.name)}
    />
  );
}
