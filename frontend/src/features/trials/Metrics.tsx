import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef } from "react";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import {
  experiment,
  panels,
  trackedRuns,
  type TrialDetail,
  trialCheckpointSteps,
  trialGuardSteps,
  trialMetrics,
  wholeTrial,
} from "../../api/queries";
import { ChartGrid } from "../../charts/ChartGrid";
import type { ChartSearch } from "../../charts/chartSearch";
import { ChartToolbar } from "../../charts/ChartToolbar";
import type { Line, Source } from "../../charts/series/SeriesChart";
import type { SeriesStore } from "../../charts/series/SeriesStore";
import type { Tile } from "../../charts/Tiles";
import { useLook } from "../../charts/useLook";
import { Empty } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { stateWord } from "../../components/StateBadge";
import { type Along, type Growing, meanOver, SAMPLES_METRIC } from "../../lib/series/axis";
import { isSingle } from "../../lib/catalog";
import * as format from "../../lib/format";
import { type Labels, lineLabels, NO_LABELS, splitRun } from "../../lib/series/runs";
import { type ChartSpec, chartSpecs } from "../../lib/series/series";
import { isTerminal } from "../../lib/states";
import { parseAt } from "../../lib/time";
import { Panels } from "../../common/panels/Panels";
import type { Around } from "../../common/panels/PanelView";
import { kindsOf, useGrowing } from "../../common/series/growing";
import { isIdle } from "../../common/series/idle";
import { singleValue } from "../../common/series/singleValue";
import { useSeriesStore } from "../../common/series/useSeriesStore";
import { useWindow } from "../../common/series/useWindow";
import { useTrialSearch } from "./address";

const MAX_RANKS = 16;
const MAX_RANKS_LISTED = 256;

export function Metrics({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const query = useQuery(trialMetrics(trial.id));
  return (
    <QueryView query={query}>
      {(data) =>
        data.names.length === 0 ? (
          <Empty title={t(isTerminal(trial.state) ? "metrics.none" : "metrics.waiting")}>{t("metrics.noneHint")}</Empty>
        ) : (
          <MetricGrid trial={trial} names={data.names} ranks={data.ranks} />
        )
      }
    </QueryView>
  );
}

function MetricGrid({ trial, names: all, ranks }: { trial: TrialDetail; names: string[]; ranks: number[] }) {
  const { t } = useTranslation();
  const whole = useWhole(trial, all.length);
  const summary = (whole ?? trial).summary;
  const names = useMemo(() => all.filter((name) => !isIdle(summary, name, ranks.length)), [all, summary, ranks.length]);
  const [search, set] = useTrialSearch();
  const store = useSeriesStore(trial.id);
  // The members of a gang of roles report different metrics.
  const wanted = search.rank ?? (trial.members.length > 0 ? "all" : undefined);
  const rankKey = wanted ?? String(ranks[0] ?? 0);
  const isMean = rankKey === "mean";
  const selected = useMemo(() => ranksShown(wanted, ranks), [wanted, ranks]);
  const startMs = parseAt(trial.started_at) ?? 0;
  const alone = useMemo(() => [trial], [trial]);
  const growingOf = useGrowing(alone, search.x);
  const growing = growingOf(trial.id);
  useWindow(store, search, startMs, selected, growing);
  useEffect(() => () => store.dispose(), [store]);
  const namesKey = names.join("\n");
  const { labels, first } = useRuns(trial);
  const specs = useMemo(() => chartsOf(namesKey.split("\n"), labels), [namesKey, labels]);
  const saved = useQuery(trialCheckpointSteps(trial.id)).data;
  const about = useQuery(experiment(trial.experiment_id)).data;
  const hasGuards = ((about?.config["guards"] as unknown[] | undefined) ?? []).length > 0;
  const acted = useQuery({ ...trialGuardSteps(trial.id), enabled: hasGuards }).data ?? [];
  const kept = useQuery(panels({ experiment: trial.experiment_id })).data;
  const marks = useMemo(
    () => (kept ?? []).filter((panel) => panel.kind === "mark").toSorted((a, b) => Number(a.x) - Number(b.x)),
    [kept],
  );
  const notes = useMemo(() => marks.map((mark) => ({ step: Number(mark.x), text: mark.title })), [marks]);
  // Read when drawing: neither a checkpoint nor a zoom makes a new source.
  const around = useRef<Beside>({ search, checkpoints: [], guards: [] });
  around.current = { search, checkpoints: saved?.steps ?? [], guards: acted, growing };
  // Known only after the points: they are told to be drawn again.
  const hasGrowing = growing !== undefined;
  const many = selected.length > 1;
  const rankLine = isMean && many ? t("metrics.rankLine", { n: selected.length }) : undefined;
  const source = useCallback(
    (wanted: string[]) =>
      trialSource(store, wanted, many, {
        rankLine,
        rankName: (rank) => memberOf(trial, rank) ?? `r${rank}`,
        startMs,
        hasGrowing,
        around: () => around.current,
        labels,
        first,
        notes,
      }),
    [store, many, trial, rankLine, startMs, hasGrowing, labels, first, notes],
  );
  const want = useCallback((wanted: string[]) => wantAll(store, wanted), [store]);
  const single = ({ names: ofChart }: ChartSpec): Tile[] | null => {
    if (many || !whole) return null;
    const at = (step: number): string => t("chart.atStep", { step: format.count(step) });
    const words = ofChart.length > 1 ? lineLabels(ofChart, labels, first) : [];
    const tiles = ofChart.map((name, i) => singleValue(whole, name, words[i] ?? splitRun(name, labels).run, at));
    return tiles.includes(null) ? null : tiles.filter((tile) => tile !== null);
  };
  const { smoothing, command } = useLook(search, set);
  const runs = [{ id: trial.id, name: trial.experiment_name, isRunning: !isTerminal(trial.state) }];
  const page: Around = { names, search, set, smoothing, want, source, runs, marks };
  const several = ranks.length > MAX_RANKS ? MAX_RANKS : ranks.length;
  return (
    <>
      <ChartToolbar search={search} set={set} kinds={kindsOf(trial)}>
        <Select
          aria-label={t("metrics.rank")}
          w={160}
          allowDeselect={false}
          value={rankKey}
          onChange={(value) => set({ rank: value ?? undefined })}
          data={[
            ...ranks
              .slice(0, MAX_RANKS_LISTED)
              .map((rank) => ({ value: String(rank), label: memberOf(trial, rank) ?? t("rank.no", { rank }) })),
            ...(ranks.length > 1
              ? [
                  { value: "mean", label: t("metrics.meanRanks", { n: several }) },
                  {
                    value: "all",
                    label: ranks.length > MAX_RANKS ? t("metrics.firstRanks", { n: MAX_RANKS }) : t("metrics.allRanks"),
                  },
                ]
              : []),
          ]}
        />
      </ChartToolbar>
      <Panels
        scope={{ experiment: trial.experiment_id, project: about?.project ?? null }}
        around={page}
        onCommand={(what) => command("", what)}
        content={{ specs, ...fileOf(t, whole ?? trial) }}
      />
      {acted.length > 0 ? (
        <p className="dim">
          {t("metrics.guardsActed", { count: acted.length, steps: acted.map((step) => format.count(step)).join(", ") })}
        </p>
      ) : null}
      {saved?.isCut ? <p className="dim">{t("metrics.checkpointsCut", { n: saved.steps.length })}</p> : null}
      <ChartGrid specs={specs} search={search} set={set} want={want} source={source} single={single} />
    </>
  );
}

/** The member of a gang of roles that a rank belongs to; undefined for a gang of one kind. */
const memberOf = (trial: TrialDetail, rank: number): string | undefined =>
  trial.members.find((member) => member.ranks.includes(rank))?.name;

/** The runs of the script within the trial: what their metrics begin with, and what the first of them is called. */
function useRuns(trial: TrialDetail): { labels: Labels; first: string } {
  const { t } = useTranslation();
  const runs = useQuery(trackedRuns(trial.id)).data?.items;
  const labels = useMemo(() => new Set(trial.child_runs), [trial.child_runs]);
  return { labels, first: runs?.find((run) => run.label === "" && run.folder !== "")?.name ?? t("metrics.firstRun") };
}

/** Of more metrics nobody looks for the ones with a single value. */
const MAX_SUMMARIES = 500;
const SUMMARIES_MS = 30_000;

/** The trial with the summaries of all of its metrics. Not with its other queries, which each hint asks again. */
function useWhole(trial: TrialDetail, numMetrics: number): TrialDetail | undefined {
  const isOver = isTerminal(trial.state);
  return useQuery({
    ...wholeTrial(trial.id),
    queryKey: ["trial-whole", trial.id, String(isOver)],
    enabled: numMetrics <= MAX_SUMMARIES,
    staleTime: SUMMARIES_MS,
    refetchInterval: isOver ? false : SUMMARIES_MS,
  }).data;
}

/** What the file of the page says besides its charts. */
function fileOf(t: TFunction, trial: TrialDetail) {
  const values = Object.entries(trial.summary);
  const value = (raw: unknown): string => (typeof raw === "string" ? raw : JSON.stringify(raw));
  return {
    title: isSingle(trial) ? trial.experiment_name : `${trial.experiment_name} · ${t("trial.no", { no: trial.no })}`,
    facts: [`${stateWord(t, trial.state)} · ${t("chart.atStep", { step: format.count(trial.step) })}`],
    tables: [
      {
        title: t("pageFile.config"),
        head: [t("search.parameter"), t("compare.statistic")],
        rows: Object.entries(trial.hparams).map(([name, raw]) => [name, value(raw)]),
      },
      {
        title: t("pageFile.values"),
        head: [t("compare.metric"), ...(["last", "min", "max"] as const).map((one) => t(`compare.statistics.${one}`))],
        rows: values.map(([name, one]) => [name, ...[one.last, one.min, one.max].map((v) => format.metric(name, v))]),
      },
    ].filter((table) => table.rows.length > 0),
  };
}

/** Which ranks are drawn, by the address and by those that have reported. */
export function ranksShown(wanted: string | undefined, ranks: number[]): number[] {
  if (wanted === "all" || wanted === "mean") return ranks.slice(0, MAX_RANKS);
  return [Number(wanted ?? ranks[0] ?? 0)];
}

/** The charts of a trial. Metrics of each process group and kind are in the performance tab's table. */
export function chartsOf(names: string[], labels?: Labels): ChartSpec[] {
  return chartSpecs(
    names.filter((name) => !/^comm\/.+\//.test(name) && name !== SAMPLES_METRIC),
    labels,
  );
}

function wantAll(store: SeriesStore, names: string[]): () => void {
  const releases = names.map((name) => store.want(name));
  return () => {
    for (const release of releases) release();
  };
}

interface Beside {
  search: ChartSearch;
  checkpoints: number[];
  guards: number[];
  /** Epochs or samples by step, when they are the x axis. */
  growing?: Growing;
}

interface Look {
  /** One line, the mean of the ranks, with this label. */
  rankLine?: string;
  /** The name of a rank among several. */
  rankName?: (rank: number) => string;
  startMs?: number;
  /** Whether epochs or samples are to be drawn along; their values are read from `around`. */
  hasGrowing?: boolean;
  around?: () => Beside;
  /** What the metrics of child runs begin with. */
  labels?: Labels;
  /** What the first run is called. */
  first?: string;
  /** What people wrote at a step. */
  notes?: readonly { step: number; text: string }[];
}

export function trialSource(
  store: SeriesStore,
  names: string[],
  many: boolean,
  {
    rankLine,
    rankName = (rank) => `r${rank}`,
    startMs,
    hasGrowing,
    around,
    labels = NO_LABELS,
    first = "",
    notes = [],
  }: Look = {},
): Source {
  const words = lineLabels(names, labels, first);
  return {
    lines: () => {
      const lines: Line[] = [];
      const along: Along = { startMs, growing: hasGrowing ? around?.().growing : undefined };
      names.forEach((name, i) => {
        const label = words[i] ?? name;
        const ranks = store.get(name);
        if (rankLine && ranks.length > 1) {
          lines.push({
            key: `${name}@mean`,
            label: `${names.length > 1 ? `${label} ` : ""}${rankLine}`,
            columns: meanOver(ranks),
            color: i,
            band: true,
            along,
          });
          return;
        }
        for (const columns of ranks) {
          lines.push({
            key: `${name}@${columns.rank}`,
            label: many ? `${names.length > 1 ? `${label} ` : ""}${rankName(columns.rank)}` : label,
            columns,
            // ranks keep their colour; validation is the second hue when one rank is shown
            color: many && !rankLine ? columns.rank + i * 6 : i,
            along,
          });
        }
      });
      return lines;
    },
    subscribe: (listener) => store.subscribe(listener, names),
    restarts: () => store.restarts(names),
    checkpoints: () => around?.().checkpoints ?? [],
    guards: () => around?.().guards ?? [],
    notes: () => notes,
    range: () => {
      const search = around?.().search;
      return search ? { from: search.from, to: search.to } : store.getRange();
    },
    error: () => store.error,
    ready: () => names.every((name) => store.has(name)),
  };
}
