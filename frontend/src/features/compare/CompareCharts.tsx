import { Select } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef } from "react";
import { useTranslation } from "react-i18next";

import { coalesce } from "../../api/live";
import { live, useLiveQueries } from "../../api/liveHooks";
import { ChartGrid } from "../../charts/ChartGrid";
import type { ChartSearch } from "../../charts/chartSearch";
import { ChartToolbar } from "../../charts/ChartToolbar";
import type { Line, Source } from "../../charts/SeriesChart";
import { SeriesStore } from "../../charts/SeriesStore";
import { Empty } from "../../components/basics";
import { type Growing, type OfferedKind, SAMPLES_METRIC, X_KINDS, xOf } from "../../lib/axis";
import { compareSpecs } from "../../lib/series";
import { parseAt } from "../../lib/time";
import { kindsOf, useGrowing } from "../../common/series/growing";
import { fetchTrialSeries } from "../../common/series/useSeriesStore";
import { useWindow } from "../../common/series/useWindow";
import { colorsOf, differences, groupBy, groupCurve, settingsOf } from "./compareData";
import type { Compared } from "./TrialChips";

/** Points per curve: many curves on one chart need no more than the screen shows. */
const POINTS = { few: 1000, many: 300 };
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
  const idsKey = compared.map(({ id }) => id).join(",");
  const stores = useStores(idsKey);
  const namesKey = [...new Set(compared.flatMap(({ trial }) => Object.keys(trial.summary)))].toSorted().join("\n");
  const specs = useMemo(
    () =>
      compareSpecs(namesKey.split("\n").filter((name) => name && !/^comm\/.+\//.test(name) && name !== SAMPLES_METRIC)),
    [namesKey],
  );
  const settings = compared.map(({ id, trial }) => ({ id, settings: settingsOf(trial) }));
  const keys = differences(settings.map((one) => one.settings))
    .filter((row) => row.differs)
    .map((row) => row.key);
  const groups = search.group === undefined ? null : groupBy(settings, search.group);
  const trials = useMemo(() => compared.map(({ trial }) => trial), [compared]);
  const growingOf = useGrowing(trials, search.x);
  const kinds = X_KINDS.filter((kind) => compared.some(({ trial }) => kindsOf(trial).includes(kind)));
  const without =
    search.x === undefined
      ? 0
      : compared.filter(({ trial, hidden: isHidden }) => !isHidden && !kindsOf(trial).includes(search.x as OfferedKind))
          .length;
  const latest = useRef<Latest>({ compared, groups, search, growingOf: () => undefined, label: (label) => label });
  latest.current = { compared, groups, search, growingOf, label: (label, n) => t("compare.groupLine", { label, n }) };
  const hidden = compared
    .filter((one) => one.hidden)
    .map(({ id }) => id)
    .join(",");
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
        <Select
          aria-label={t("compare.group")}
          w={190}
          searchable
          value={search.group ?? ""}
          onChange={(value) => set({ group: value || undefined })}
          data={[{ value: "", label: t("compare.noGroup") }, ...keys.map((key) => ({ value: key, label: key }))]}
          data-testid="group-by"
        />
      </ChartToolbar>
      <p className="dim">
        {t("compare.rankHint")}{" "}
        {without > 0 && search.x
          ? t("compare.noAxis", { count: without, x: t(`metrics.xKind.${search.x as OfferedKind}`) })
          : null}
      </p>
      <ChartGrid
        key={`${hidden}|${search.group ?? ""}`}
        specs={specs}
        search={search}
        set={set}
        want={want}
        source={source}
      />
    </>
  );
}

/** One store per trial, kept while the trial stays. */
function useStores(idsKey: string): ReadonlyMap<number, SeriesStore> {
  const held = useRef(new Map<number, SeriesStore>());
  const stores = useMemo(() => {
    const ids = idsKey === "" ? [] : idsKey.split(",").map(Number);
    const points = ids.length <= FEW ? POINTS.few : POINTS.many;
    const next = new Map(
      ids.map((id) => [
        id,
        held.current.get(id) ?? new SeriesStore((ask, signal) => fetchTrialSeries(id, ask, signal), points),
      ]),
    );
    for (const [id, store] of held.current) if (!next.has(id)) store.dispose();
    held.current = next;
    return next;
  }, [idsKey, held]);
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
    return names.flatMap((name) => {
      const curve = (id: number) => stores.get(id)?.get(name)[0];
      if (!groups) {
        return shown.flatMap(({ id, name: trialName, color }) => {
          const columns = curve(id);
          return columns
            ? [
                {
                  key: `${name}@${id}`,
                  label: trialName,
                  columns,
                  color,
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
            label: label(group.label, members.length),
            columns: groupCurve(members, sinceStart),
            color: colors.get(i) ?? i,
            band: members.length > 1,
            along: { startMs: 0, growing: ITSELF },
          },
        ];
      });
    });
  };
  return {
    lines,
    subscribe: (listener) => {
      const ends = all.map((store) => store.subscribe(listener));
      return () => {
        for (const end of ends) end();
      };
    },
    range: () => ({ from: latest().search.from, to: latest().search.to }),
    error: () => all.find((store) => store.error)?.error ?? null,
    ready: () => names.every((name) => all.every((store) => store.has(name))),
  };
}
