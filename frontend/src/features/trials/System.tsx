import { MultiSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { type TrialDetail, type TrialSystemMetrics, trialSystemMetrics } from "../../api/queries";
import { ChartGrid } from "../../charts/ChartGrid";
import type { ChartSearch } from "../../charts/chartSearch";
import { ChartToolbar } from "../../charts/ChartToolbar";
import { UsageStore } from "../../common/nodes/usageStore";
import { Empty } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { isTerminal } from "../../lib/states";
import { parseAt } from "../../lib/time";
import { useTrialSearch } from "./address";

/** As many as the server reads at once. */
const NODES_MAX = 8;
const KINDS = ["relative", "wall"] as const;
const WANT_NOTHING = (): (() => void) => () => {};

/** How busy the nodes of a trial were during its attempts, along the same time as its metrics. */
export function System({ trial }: { trial: TrialDetail }) {
  const [nodes, setNodes] = useState<string[]>([]);
  const query = useQuery(trialSystemMetrics(trial.id, nodes, !isTerminal(trial.state)));
  return (
    <QueryView query={query}>
      {(data) => <Usage trial={trial} data={data} nodes={nodes} onNodes={setNodes} />}
    </QueryView>
  );
}

interface Props {
  trial: TrialDetail;
  data: TrialSystemMetrics;
  nodes: string[];
  onNodes: (nodes: string[]) => void;
}

function Usage({ trial, data, nodes, onNodes }: Props) {
  const { t } = useTranslation();
  const [search, set] = useTimeSearch();
  const [store] = useState(() => new UsageStore());
  const startMs = parseAt(trial.started_at) ?? parseAt(trial.queued_at) ?? 0;
  store.show(data, startMs, { from: search.from, to: search.to });
  useEffect(() => store.tell(), [store, data, search.from, search.to]);
  const specs = store.specs();
  const specsKey = JSON.stringify(specs);
  const stable = useMemo(() => JSON.parse(specsKey) as typeof specs, [specsKey]);
  const source = useCallback((names: string[]) => store.source(names), [store]);
  const hidden = data.node_names.length - data.shown.length;
  if (data.items.length === 0) {
    const hint = t(trial.attempts.length === 0 ? "system.notStarted" : "system.noneHint", { days: data.kept_days });
    return <Empty title={t("system.none")}>{hint}</Empty>;
  }
  return (
    <>
      <ChartToolbar search={search} set={set} kinds={KINDS}>
        {data.node_names.length > 1 ? (
          <MultiSelect
            aria-label={t("nav.nodes")}
            placeholder={nodes.length === 0 ? t("system.nodes", { count: data.shown.length }) : undefined}
            value={nodes}
            onChange={onNodes}
            data={data.node_names}
            maxValues={NODES_MAX}
            clearable
            searchable
            w={220}
          />
        ) : null}
      </ChartToolbar>
      {hidden > 0 && nodes.length === 0 ? (
        <p className="dim">{t("system.some", { shown: data.shown.length, all: data.node_names.length })}</p>
      ) : null}
      <p className="dim">{t("system.kept", { hours: data.full_hours, days: data.kept_days })}</p>
      <ChartGrid specs={stable} search={search} set={set} want={WANT_NOTHING} source={source} />
    </>
  );
}

/** The address, along time: a window of steps is none of a node, and whoever zooms here zooms in time. */
function useTimeSearch(): [ChartSearch, (change: ChartSearch) => void] {
  const [search, set] = useTrialSearch();
  if (search.x === "relative" || search.x === "wall") return [search, set];
  const inTime: ChartSearch = { ...search, x: "relative", from: undefined, to: undefined, logx: undefined };
  return [inTime, (change) => set("from" in change || "to" in change ? { x: "relative", ...change } : change)];
}
