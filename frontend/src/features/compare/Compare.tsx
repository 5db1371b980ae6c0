import { useQueries } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { ApiError } from "../../api/client";
import { type TrialDetail, wholeTrial } from "../../api/queries";
import { Notice, PageHead, Skeleton } from "../../components/basics";
import { isSingle } from "../../lib/catalog";
import { ErrorBoundary } from "../../components/ErrorBoundary";
import { Failure } from "../../components/QueryView";
import { Tabs } from "../../components/Tabs";
import { AddTrial } from "./AddTrial";
import { colorsOf, idsOf, MAX_GROUPED, MAX_TRIALS } from "./compareData";
import { CompareCharts } from "./CompareCharts";
import { CompareMedia } from "./CompareMedia";
import { ComparePerformance } from "./ComparePerformance";
import { GroupSummary } from "./GroupSummary";
import { Suggestions } from "./Suggestions";
import { ConfigTable, SummaryTable } from "./CompareTables";
import { type Compared, TrialChips } from "./TrialChips";

const TABS = ["charts", "summary", "config", "performance", "media"] as const;

/** Trials side by side; which ones, and how they are looked at, is the address. */
export function Compare() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/compare" });
  const navigate = useNavigate({ from: "/compare" });
  const ids = idsOf(search.trials);
  const hidden = new Set(idsOf(search.hide));
  const queries = useQueries({ queries: ids.map((id) => wholeTrial(id)) });
  const set = (change: Partial<typeof search>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const choose = (next: number[]): void => set({ trials: next.length > 0 ? next.join(",") : undefined });
  const colors = colorsOf(ids);
  const found = queries.flatMap((query) => (query.data ? [query.data] : []));
  const names = namesOf(found, (no) => t("trial.no", { no }));
  const compared: Compared[] = ids.flatMap((id) => {
    const data = found.find((one) => one.id === id);
    return data
      ? [{ id, trial: data, name: names.get(id) ?? String(id), color: colors.get(id) ?? 0, hidden: hidden.has(id) }]
      : [];
  });
  const gone = ids.filter((_, i) => queries[i]?.error instanceof ApiError && queries[i].error.status === 404);
  const failed = queries.find(
    (query) => query.error && !(query.error instanceof ApiError && query.error.status === 404),
  );
  const isLoading = queries.some((query) => query.isPending);
  // Too many for a column each: means of groups are what can be looked at.
  const isMany = ids.length > MAX_TRIALS;
  const tabs = isMany ? TABS.slice(0, 2) : TABS;
  const tab = tabs.find((name) => name === search.tab) ?? "charts";
  const base = compared.find((one) => one.id === search.base)?.id ?? compared[0]?.id ?? 0;
  const remove = (id: number): void => choose(ids.filter((one) => one !== id));
  return (
    <>
      <PageHead
        guide="guides/dashboard#compare-which-is-better-and-why"
        title={t("compare.title")}
        sub={ids.length > 0 ? t("compare.sub", { count: ids.length }) : null}
        actions={<AddTrial chosen={ids} onAdd={(more) => choose([...ids, ...more])} />}
      />
      {ids.length >= MAX_GROUPED ? <Notice tone="warn" title={t("compare.full", { max: MAX_GROUPED })} /> : null}
      {isMany ? <Notice title={t("compare.many", { max: MAX_TRIALS })} /> : null}
      {failed?.error ? <Failure error={failed.error} onRetry={failed.refetch} /> : null}
      {ids.length < 2 ? <Suggestions chosen={ids} onChoose={choose} /> : null}
      {ids.length === 0 || (failed && compared.length === 0) ? null : (
        <>
          {isMany ? null : (
            <TrialChips
              compared={compared}
              gone={gone}
              base={base}
              onBase={(id) => set({ base: id })}
              onRemove={remove}
              onHide={(id) =>
                set({
                  hide:
                    (hidden.has(id) ? [...hidden].filter((one) => one !== id) : [...hidden, id]).join(",") || undefined,
                })
              }
            />
          )}
          <Tabs
            active={tab}
            label={t("compare.title")}
            tabs={tabs.map((name) => ({ id: name, label: t(`compare.tabs.${name}`) }))}
          />
          {isLoading ? (
            <Skeleton rows={8} />
          ) : (
            <ErrorBoundary resetKey={tab}>
              {tab === "charts" ? <CompareCharts compared={compared} /> : null}
              {tab === "media" ? <CompareMedia compared={compared} /> : null}
              {tab === "performance" ? <ComparePerformance compared={compared} base={base} /> : null}
              {tab === "config" ? (
                <ConfigTable
                  compared={compared}
                  base={base}
                  all={search.all ?? false}
                  onAll={(all) => set({ all: all || undefined })}
                />
              ) : null}
              {tab === "summary" && isMany ? (
                <GroupSummary compared={compared} group={search.group} onGroup={(group) => set({ group })} />
              ) : null}
              {tab === "summary" && !isMany ? (
                <SummaryTable
                  compared={compared}
                  base={base}
                  find={search.find}
                  onFind={(find) => set({ find })}
                  statistic={search.stat ?? "last"}
                  onStatistic={(stat) => set({ stat: stat === "last" ? undefined : stat })}
                />
              ) : null}
            </ErrorBoundary>
          )}
        </>
      )}
    </>
  );
}

/** The experiment's name; with the trial's number in a search, and its id where two would be called the same. */
function namesOf(trials: readonly TrialDetail[], trialNo: (no: number) => string): Map<number, string> {
  const name = (one: TrialDetail): string =>
    isSingle(one) ? one.experiment_name : `${one.experiment_name} · ${trialNo(one.no)}`;
  return new Map(
    trials.map((one) => [
      one.id,
      trials.some((other) => other.id !== one.id && name(other) === name(one)) ? `${name(one)} #${one.id}` : name(one),
    ]),
  );
}
