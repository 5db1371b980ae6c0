import { Button, Select, SegmentedControl, Switch } from "@mantine/core";
import { useIntersection } from "@mantine/hooks";
import { IconZoomReset } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { useTranslation } from "react-i18next";

import { type TrialDetail, trialMetrics } from "../../api/queries";
import chartCss from "../../charts/chart.module.css";
import { type Line, SeriesChart, type Source } from "../../charts/SeriesChart";
import type { SeriesStore } from "../../charts/SeriesStore";
import { Empty } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import * as format from "../../lib/format";
import { type ChartSpec, chartSpecs } from "../../lib/series";
import { isTerminal } from "../../lib/states";
import css from "./trials.module.css";
import { useSeriesStore } from "./useSeriesStore";

const MAX_RANKS = 16;

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

function MetricGrid({ trial, names, ranks }: { trial: TrialDetail; names: string[]; ranks: number[] }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/trials/$trialId" });
  const navigate = useNavigate({ from: "/trials/$trialId" });
  const store = useSeriesStore(trial.id);
  const rankKey = search.rank ?? String(ranks[0] ?? 0);
  const selected = useMemo(
    () => (rankKey === "all" ? ranks.slice(0, MAX_RANKS) : [Number(rankKey)]),
    [rankKey, ranks],
  );
  useEffect(() => {
    store.configure({ from: search.from, to: search.to }, selected);
  }, [store, search.from, search.to, selected]);
  useEffect(() => () => store.dispose(), [store]);
  const namesKey = names.join("\n");
  // Those of each process group and kind are in the performance tab's table.
  const specs = useMemo(() => chartSpecs(namesKey.split("\n").filter((name) => !/^comm\/.+\//.test(name))), [namesKey]);
  const groups = [...new Set(specs.map((spec) => spec.group))];
  const set = (change: Partial<typeof search>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const zoomed = search.from !== undefined || search.to !== undefined;
  const smoothing = search.smooth ?? 0;
  return (
    <>
      <div className={css["toolbar"]} role="toolbar" aria-label={t("metrics.toolbar")}>
        <Select
          aria-label={t("metrics.rank")}
          w={140}
          allowDeselect={false}
          value={rankKey}
          onChange={(value) => set({ rank: value ?? undefined })}
          data={[...ranks.slice(0, 256).map((rank) => ({ value: String(rank), label: t("rank.no", { rank }) })), ...(ranks.length > 1 ? [{ value: "all", label: ranks.length > MAX_RANKS ? t("metrics.firstRanks", { n: MAX_RANKS }) : t("metrics.allRanks") }] : [])]}
        />
        <SegmentedControl
          aria-label={t("metrics.smoothing")}
          value={String(smoothing)}
          onChange={(value) => set({ smooth: Number(value) || undefined })}
          data={[
            { value: "0", label: t("metrics.raw") },
            { value: "0.6", label: "0.6" },
            { value: "0.9", label: "0.9" },
            { value: "0.97", label: "0.97" },
          ]}
        />
        <Switch label={t("metrics.logY")} checked={search.log ?? false} onChange={(e) => set({ log: e.currentTarget.checked || undefined })} />
        {zoomed ? (
          <Button variant="default" leftSection={<IconZoomReset size={14} />} onClick={() => set({ from: undefined, to: undefined })}>
            {t("metrics.zoomed", { from: format.count(search.from ?? 0), to: search.to === undefined ? "…" : format.count(search.to) })}
          </Button>
        ) : (
          <span className="dim" style={{ fontSize: "0.75rem" }}>{t("metrics.zoomHint")}</span>
        )}
      </div>
      {groups.map((group) => (
        <section key={group} className={css["group"]}>
          <h2>{group}/</h2>
          <div className={chartCss["grid"]}>
            {specs
              .filter((spec) => spec.group === group)
              .map((spec) => (
                <LazyChart key={spec.id} spec={spec} store={store} many={selected.length > 1} log={search.log ?? false} smoothing={smoothing} onZoom={(range) => set({ from: range?.from, to: range?.to })} />
              ))}
          </div>
        </section>
      ))}
    </>
  );
}

interface LazyProps {
  spec: ChartSpec;
  store: SeriesStore;
  many: boolean;
  log: boolean;
  smoothing: number;
  onZoom: (range: { from: number; to: number } | null) => void;
}

/** Draws and fetches only what is on the screen: a page of 2,000 metrics stays light. */
function LazyChart({ spec, store, many, log, smoothing, onZoom }: LazyProps) {
  const { ref, entry } = useIntersection({ rootMargin: "240px" });
  const visible = entry?.isIntersecting ?? false;
  const key = spec.names.join("\n");
  useEffect(() => {
    if (!visible) return undefined;
    const releases = key.split("\n").map((name) => store.want(name));
    return () => {
      for (const release of releases) release();
    };
  }, [visible, key, store]);
  const source = useMemo(() => trialSource(store, key.split("\n"), many), [store, key, many]);
  return (
    <div ref={ref} style={{ minHeight: 284, minWidth: 0 }}>
      {visible ? <SeriesChart id={spec.id} title={spec.names.length > 1 ? `${spec.id} · ${spec.names.slice(1).join(", ")}` : spec.id} metric={spec.id} source={source} log={log} smoothing={smoothing} syncKey="trial" onZoom={onZoom} /> : null}
    </div>
  );
}

export function trialSource(store: SeriesStore, names: string[], many: boolean): Source {
  return {
    lines: () => {
      const lines: Line[] = [];
      names.forEach((name, i) => {
        for (const columns of store.get(name)) {
          const label = names.length > 1 ? name.slice(0, name.indexOf("/")) : format.metricLabel(name);
          lines.push({
            key: `${name}@${columns.rank}`,
            label: many ? `${names.length > 1 ? `${label} ` : ""}r${columns.rank}` : label,
            columns,
            // ranks keep their colour; validation is the second hue when one rank is shown
            color: many ? columns.rank + i * 6 : i,
          });
        }
      });
      return lines;
    },
    subscribe: (listener) => store.subscribe(listener),
    restarts: () => store.restarts,
    range: () => store.getRange(),
    error: () => store.error,
    ready: () => names.every((name) => store.has(name)),
  };
}
