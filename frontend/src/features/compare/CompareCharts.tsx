import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { TFunction } from "i18next";
import { useCallback, useEffect, useMemo, useRef } from "react";
import { useTranslation } from "react-i18next";

import { coalesce } from "../../api/live";
import { live, useLiveQueries } from "../../api/liveHooks";
import { experiment } from "../../api/queries";
import { ChartGrid } from "../../charts/ChartGrid";
import type { ChartSearch } from "../../charts/chartSearch";
import { ChartToolbar } from "../../charts/ChartToolbar";
import { lineOfRun } from "../../charts/palette";
import type { Line, Source } from "../../charts/series/SeriesChart";
import { SeriesStore } from "../../charts/series/SeriesStore";
import type { Tile } from "../../charts/Tiles";
import { useLook } from "../../charts/useLook";
import { Empty } from "../../components/basics";
import { type Growing, SAMPLES_METRIC, X_KINDS, xOf } from "../../lib/series/axis";
import * as format from "../../lib/format";
import { subscribeAll } from "../../lib/perFrame";
import { splitRun } from "../../lib/series/runs";
import { type ChartSpec, compareSpecs } from "../../lib/series/series";
import { isTerminal } from "../../lib/states";
import { parseAt } from "../../lib/time";
import { Panels } from "../../common/panels/Panels";
import type { Around } from "../../common/panels/PanelView";
import { kindsOf, useGrowing } from "../../common/series/growing";
import { singleValue } from "../../common/series/singleValue";
import { fetchTrialSeries } from "../../common/series/useSeriesStore";
import { useWindow } from "../../common/series/useWindow";
import { colorsOf, groupCurve, MAX_TRIALS } from "./compareData";
import { togetherFetcher } from "./compareSeries";
import { GroupSelect } from "./GroupSelect";
import type { Compared } from "./TrialChips";
import { useGroups } from "./useGroups";

/** Points per curve: many curves on one chart need no more than the screen shows. */
const POINTS = { few: 1000, many: 300, hundreds: 100 };
const FEW = 6;
const RANKS = [0];
/** Of a mean whose steps already are epochs or samples. */
const ITSELF: Growing = { step: [1], value: [1] };

/** The same metric of every trial on one chart. */
export function CompareCharts({ compared }: { compared: Compared[] }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/compare" });
  const navigate = useNavigate({ from: "/compare" });
  const set = (change: Partial<typeof search>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const stores = useStores(compared.map(({ id }) => id).join(","));
  const specs = useSpecs(compared);
  const grouping = useGroups(compared, search.group);
  const trials = useMemo(() => compared.map(({ trial }) => trial), [compared]);
  const growingOf = useGrowing(trials, search.x);
  const { source, want } = useCurves(stores, { compared, groups: grouping.groups, search, growingOf });
  const { smoothing, command } = useLook(search, set);
  const shown = compared.filter((one) => !one.hidden);
  const of = compared[0]?.trial.experiment_id ?? 0;
  const about = useQuery({ ...experiment(of), enabled: of > 0 }).data;
  const page: Around = {
    names: specs.map(({ id }) => id),
    search,
    set,
    smoothing,
    want,
    source,
    runs: shown.map(({ id, name, trial }) => ({ id, name, isRunning: !isTerminal(trial.state) })),
  };
  const kinds = X_KINDS.filter((kind) => compared.some(({ trial }) => kindsOf(trial).includes(kind)));
  const x = search.x as Exclude<ChartSearch["x"], undefined> | undefined;
  const without = x === undefined ? 0 : shown.filter(({ trial }) => !kindsOf(trial).includes(x)).length;
  // Others are drawn: from scratch, since it is not the points that have changed.
  const key = `${shown.map(({ id }) => id).join(",")}|${grouping.key ?? ""}`;
  if (specs.length === 0) return <Empty title={t("compare.noMetrics")} />;
  return (
    <>
      {compared.map((one) => {
        const store = stores.get(one.id);
        return store ? (
          <Follow key={one.id} one={one} store={store} search={search} growing={growingOf(one.id)} />
        ) : null;
      })}
      <ChartToolbar search={search} set={set} kinds={kinds}>
        <GroupSelect grouping={grouping} onGroup={(group) => set({ group })} />
      </ChartToolbar>
      <Panels
        key={`panels|${key}`}
        scope={{ experiment: of, project: about?.project ?? null }}
        around={page}
        onCommand={(what) => command("", what)}
        isShared={new Set(trials.map((one) => one.experiment_id)).size > 1}
        content={{ specs, ...fileOf(t, compared) }}
      />
      <p className="dim">
        {t("compare.rankHint")}{" "}
        {without > 0 && x ? t("compare.noAxis", { count: without, x: t(`metrics.xKind.${x}`) }) : null}
      </p>
      <ChartGrid
        key={key}
        specs={specs}
        search={search}
        set={set}
        want={want}
        source={source}
        single={(spec) => singles(shown, spec, (step) => t("chart.atStep", { step: format.count(step) }))}
      />
    </>
  );
}

/** What the metrics of their further runs begin with. */
const labelsOf = (compared: readonly Compared[]): string[] => [
  ...new Set(compared.flatMap(({ trial }) => trial.child_runs)),
];

/** A chart for each metric of any of them. */
function useSpecs(compared: readonly Compared[]): ChartSpec[] {
  const names = [...new Set(compared.flatMap(({ trial }) => Object.keys(trial.summary)))].toSorted().join("\n");
  const labels = labelsOf(compared).join("\n");
  return useMemo(
    () =>
      compareSpecs(
        names.split("\n").filter((name) => name && !/^comm\/.+\//.test(name) && name !== SAMPLES_METRIC),
        new Set(labels.split("\n")),
      ),
    [names, labels],
  );
}

/** The curves as charts ask for them. What changes without new points is read when drawing. */
function useCurves(stores: ReadonlyMap<number, SeriesStore>, now: Omit<Latest, "label">) {
  const { t } = useTranslation();
  const label = (name: string, n: number): string => t("compare.groupLine", { label: name, n });
  const latest = useRef<Latest>({ ...now, label });
  latest.current = { ...now, label };
  // oxlint-disable-next-line react/memo-dependencies -- read when drawing: a new source would draw every chart again
  const source = useCallback((names: string[]) => sourceOf(stores, names, () => latest.current), [stores]);
  const want = useCallback(
    (names: string[]) => {
      const releases = [...stores.values()].flatMap((store) => names.map((name) => store.want(name)));
      return () => {
        for (const release of releases) release();
      };
    },
    [stores],
  );
  return { source, want };
}

/** The values of a metric that has one in every trial which reports it; null: it is a curve. */
function singles(shown: readonly Compared[], spec: ChartSpec, at: (step: number) => string): Tile[] | null {
  const tiles = spec.names.flatMap((metric) =>
    shown
      .filter(({ trial }) => metric in trial.summary)
      .map(({ id, name, trial }) => {
        const { run } = splitRun(metric, new Set(trial.child_runs));
        const tile = singleValue(trial, metric, run ? `${name} · ${run}` : name, at);
        return tile ? { ...tile, key: `${metric}@${id}` } : null;
      }),
  );
  return tiles.length > 0 && tiles.every((tile) => tile !== null) ? tiles : null;
}

/** What the file of the page says besides its charts. */
function fileOf(t: TFunction, compared: readonly Compared[]) {
  const shown = compared.filter((one) => !one.hidden);
  const names = [...new Set(shown.flatMap(({ trial }) => Object.keys(trial.summary)))].toSorted();
  return {
    title: t("compare.title"),
    facts: shown.map(({ name }) => name),
    tables: [
      {
        title: t("pageFile.values"),
        head: [t("compare.metric"), ...shown.map(({ name }) => name)],
        rows: names.map((name) => [name, ...shown.map(({ trial }) => format.metric(name, trial.summary[name]?.last))]),
      },
    ],
  };
}

/** One store per trial, kept while the trial stays. */
function useStores(idsKey: string): ReadonlyMap<number, SeriesStore> {
  const held = useRef(new Map<number, SeriesStore>());
  const together = useRef(togetherFetcher());
  const stores = useMemo(() => {
    const ids = idsKey === "" ? [] : idsKey.split(",").map(Number);
    const isMany = ids.length > MAX_TRIALS;
    const points = ids.length <= FEW ? POINTS.few : isMany ? POINTS.hundreds : POINTS.many;
    const fetchOne = isMany ? together.current : fetchTrialSeries;
    const next = new Map(
      ids.map((id) => [
        id,
        held.current.get(id) ?? new SeriesStore((ask, signal) => fetchOne(id, ask, signal), points, !isMany),
      ]),
    );
    for (const [id, store] of held.current) if (!next.has(id)) store.dispose();
    held.current = next;
    return next;
  }, [idsKey, held, together]);
  useEffect(
    () => () => {
      for (const store of held.current.values()) store.dispose();
      held.current = new Map();
    },
    [held],
  );
  return stores;
}

/** Keeps a trial's points at the window of the address, and fresh. */
function Follow({
  one,
  store,
  search,
  growing,
}: {
  one: Compared;
  store: SeriesStore;
  search: ChartSearch;
  growing?: Growing;
}) {
  useLiveQueries(`trial:${one.id}`, ["trial", one.id]);
  useWindow(store, search, parseAt(one.trial.started_at) ?? 0, RANKS, growing);
  useEffect(
    () =>
      live.subscribe(
        `trial:${one.id}`,
        coalesce(() => store.refresh()),
      ),
    [one.id, store],
  );
  return null;
}

interface Latest {
  compared: Compared[];
  groups: { label: string; ids: number[] }[] | null;
  search: ChartSearch;
  growingOf: (id: number) => Growing | undefined;
  label: (label: string, n: number) => string;
}

function sourceOf(stores: ReadonlyMap<number, SeriesStore>, names: string[], latest: () => Latest): Source {
  const all = [...stores.values()];
  const lines = (): Line[] => {
    const { compared, groups, search, growingOf, label } = latest();
    const shown = compared.filter((one) => !one.hidden);
    const start = (id: number): number => parseAt(compared.find((one) => one.id === id)?.trial.started_at) ?? 0;
    const labels = new Set(labelsOf(shown));
    const runs = [...new Set(names.map((name) => splitRun(name, labels).run))];
    return names.flatMap((name) => {
      const { run } = splitRun(name, labels);
      const no = runs.indexOf(run);
      const ofRun = (whose: string): string => (run ? `${whose} · ${run}` : whose);
      const curve = (id: number) => stores.get(id)?.get(name)[0];
      if (!groups) {
        return shown.flatMap(({ id, name: trialName, color }) => {
          const columns = curve(id);
          return columns
            ? [
                {
                  key: `${name}@${id}`,
                  label: ofRun(trialName),
                  columns,
                  color: lineOfRun(color, no),
                  along: { startMs: start(id), growing: growingOf(id) },
                },
              ]
            : [];
        });
      }
      const colors = colorsOf(groups.map((_, i) => i));
      const sinceStart = search.x === "relative";
      const isGrowing = search.x === "epoch" || search.x === "samples";
      return groups.flatMap((group, i) => {
        const members = group.ids
          .filter((id) => shown.some((one) => one.id === id))
          .flatMap((id) => {
            const columns = curve(id);
            if (!columns || columns.step.length === 0) return [];
            if (!isGrowing) return [{ columns, startMs: start(id) }];
            // The mean of values at the same epoch, which may be another step of each.
            const step = xOf(columns, search.x ?? "step", { growing: growingOf(id) });
            return step.length > 0 ? [{ columns: { ...columns, step }, startMs: start(id) }] : [];
          });
        if (members.length === 0) return [];
        return [
          {
            key: `${name}@${group.label}`,
            label: label(ofRun(group.label), members.length),
            columns: groupCurve(members, sinceStart),
            color: lineOfRun(colors.get(i) ?? i, no),
            band: members.length > 1,
            along: { startMs: 0, growing: ITSELF },
          },
        ];
      });
    });
  };
  return {
    lines,
    // Hundreds of answers come one after the other: a chart is drawn once for those of a frame.
    subscribe: (listener) => subscribeAll(all, listener),
    range: () => ({ from: latest().search.from, to: latest().search.to }),
    error: () => all.find((store) => store.error)?.error ?? null,
    ready: () => names.every((name) => all.every((store) => store.has(name))),
  };
}
