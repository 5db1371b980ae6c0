import { Button, SegmentedControl, Switch } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, searchImportance, searchResults } from "../../../api/queries";
import { Empty, Section, Skeleton } from "../../../components/basics";
import { QueryView } from "../../../components/QueryView";
import { usePref } from "../../../lib/prefs";
import { ParallelCoordinates } from "./ParallelCoordinates";
import { Population } from "./Population";
import { axes, byImportance, byMetric, goodness, matching, metrics, type Range, type Results } from "./searchData";
import { Contour, Timeline } from "./SearchMaps";
import { History, Importance, Objectives, Slice } from "./SearchPlots";
import { TrialTable } from "./TrialTable";
import layout from "../../../components/layout.module.css";
import css from "./search.module.css";

const TABLE_ROWS = 20;

/** What all trials of a search have come to. Loaded when it is looked at. */
export function SearchCharts({ experiment }: { experiment: ExperimentDetail }) {
  const query = useQuery(searchResults(experiment.id));
  return <QueryView query={query}>{(results) => <Charts results={results} experiment={experiment} />}</QueryView>;
}

function Charts({ results, experiment }: { results: Results; experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const [brushes, setBrushes] = useState<ReadonlyMap<string, Range>>(new Map());
  const metric = useMemo(() => metrics(results), [results]);
  const look = useSearchLook();
  // Asked after the results, which a server computes sooner without it. What explains most comes first, and
  // drawing thousands of trials twice takes seconds; without an answer the document's order has to do.
  const importance = useQuery(searchImportance(experiment.id));
  const shares = importance.data?.shares;
  const all = useMemo(() => byImportance(axes(results, look.isLog), shares), [results, shares, look.isLog]);
  const good = useMemo(() => {
    const values = metric.filter((value): value is number => value !== null);
    return goodness(values, results.metric_goal, look.scale);
  }, [metric, results.metric_goal, look.scale]);
  const inside = useMemo(() => matching(results, all, metric, brushes), [results, all, metric, brushes]);
  const num = metric.filter((value) => value !== null).length;
  if (num === 0) return <Empty title={t("search.noResult")}>{t("search.noResultHint")}</Empty>;
  const data = { results, metric, inside, isBrushed: brushes.size > 0, isLog: look.isLog };
  return (
    <>
      <LookBar {...look} isLogShown={all.at(-1)?.log ?? false} />
      {results.objectives.length > 0 ? (
        <Objectives
          {...data}
          table={<TrialTable results={results} metric={metric} shown={results.front} label={t("objectives.table")} />}
        />
      ) : null}
      <History {...data} />
      {importance.isPending ? (
        <Skeleton />
      ) : (
        <>
          <Section
            title={t("search.parallel")}
            note={
              brushes.size > 0 ? (
                <Button variant="subtle" size="compact-xs" onClick={() => setBrushes(new Map())}>
                  {t("search.clearBrushes", { shown: inside.length, num })}
                </Button>
              ) : (
                t("search.brushHint")
              )
            }
          >
            <ParallelCoordinates
              results={results}
              axes={all}
              metric={metric}
              inside={inside}
              good={good}
              brushes={brushes}
              onBrush={setBrushes}
            />
            <BestTable results={results} metric={metric} inside={inside} />
          </Section>
          <Population results={results} metric={metric} />
          <Importance experiment={experiment} />
          <Slice {...data} axes={all} />
          <Section guide="concepts/search#the-search-tab" title={t("maps.title")}>
            <Contour results={results} axes={all} metric={metric} inside={inside} scale={look.scale} />
          </Section>
          <Section title={t("maps.when")}>
            <Timeline results={results} inside={inside} isBrushed={brushes.size > 0} />
          </Section>
        </>
      )}
    </>
  );
}

const SCALES = ["rank", "log", "linear"] as const;

/** How the metric is shown in all charts of the search; this browser remembers it. */
function useSearchLook() {
  const [kept, keep] = usePref("search.colors");
  const [keptLog, keepLog] = usePref("search.log");
  return {
    scale: SCALES.find((one) => one === kept) ?? "rank",
    onScale: keep,
    /** Undefined: as the values suggest. */
    isLog: keptLog === null ? undefined : keptLog === "on",
    onLog: (isOn: boolean) => keepLog(isOn ? "on" : "off"),
  };
}

function LookBar({
  scale,
  onScale,
  onLog,
  isLogShown,
}: Omit<ReturnType<typeof useSearchLook>, "isLog"> & { isLogShown: boolean }) {
  const { t } = useTranslation();
  return (
    <div className={css["look"]} role="toolbar" aria-label={t("search.look")}>
      <span className="dim">{t("search.colors")}</span>
      <SegmentedControl
        aria-label={t("search.colors")}
        size="xs"
        value={scale}
        onChange={onScale}
        data={SCALES.map((value) => ({ value, label: t(`search.scales.${value}`) }))}
      />
      <Switch label={t("metrics.logY")} checked={isLogShown} onChange={(event) => onLog(event.currentTarget.checked)} />
    </div>
  );
}

function BestTable({ results, metric, inside }: { results: Results; metric: (number | null)[]; inside: number[] }) {
  const { t } = useTranslation();
  const shown = byMetric(inside, metric, results.metric_goal).slice(0, TABLE_ROWS);
  return (
    <>
      <p className={`dim ${layout["text"]} ${layout["aboveM"]} ${layout["belowXs"]} ${layout["small"]}`}>
        {t("search.bestOf", { shown: shown.length, count: inside.length })}
      </p>
      <TrialTable results={results} metric={metric} shown={shown} label={t("search.parallel")} />
    </>
  );
}
