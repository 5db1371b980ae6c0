import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { experiment, mediaOverview, trial, type TrialDetail } from "../../api/queries";
import { Notice, Skeleton } from "../../components/basics";
import { ErrorBoundary } from "../../components/ErrorBoundary";
import { Reason } from "../../components/text/Message";
import { QueryView } from "../../components/QueryView";
import { Tabs } from "../../components/Tabs";
import { Details } from "../../common/experiments/Details";
import { isSingle } from "../../lib/catalog";
import * as format from "../../lib/format";
import { isTerminal } from "../../lib/states";
import { useTrialSearch } from "./address";
import { Attempts } from "./Attempts";
import { Checkpoints } from "./outputs/Checkpoints";
import { Config } from "./Config";
import { Goodput } from "./Goodput";
import { Evaluation } from "./outputs/Evaluation";
import { Logs } from "./Logs";
import { Media } from "./outputs/Media";
import { Metrics } from "./Metrics";
import { Outputs } from "./outputs/Outputs";
import { Performance } from "./performance/Performance";
import { Ranks } from "./Ranks";
import { System } from "./System";
import { isApplicable, TABS, type TabName } from "./tabs";
import { TrialEvents } from "./TrialEvents";
import { TrialHead } from "./header/TrialHead";
import { TrialStrip } from "./header/TrialStrip";
import { useHome } from "./useHome";
import { WasteNotice } from "./header/WasteNotice";
import { Why } from "./header/Why";

export { askEarly } from "./askEarly";

export function TrialPage() {
  const { trialId } = useParams({ from: "/app/trials/$trialId" });
  return <Loaded id={Number(trialId)} />;
}

/** The page of an experiment that can have only one trial; its experiment has been loaded. */
export function OnlyTrialPage() {
  const { experimentId } = useParams({ from: "/app/experiments/$experimentId" });
  const id = useQuery(experiment(Number(experimentId))).data?.only_trial_id;
  return id ? <Loaded id={id} /> : <Skeleton rows={8} hasHead />;
}

function Loaded({ id }: { id: number }) {
  const query = useQuery(trial(id));
  useLiveQueries(`trial:${id}`, ["trial", id]);
  return (
    <QueryView query={query} isPage>
      {(data) => <TrialView trial={data} key={data.id} />}
    </QueryView>
  );
}

function TrialView({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const [search] = useTrialSearch();
  const whole = useQuery(experiment(data.experiment_id)).data;
  useLiveQueries(
    `experiment:${data.experiment_id}`,
    ["experiment", data.experiment_id],
    ["scaling", data.experiment_id],
  );
  const isOnly = whole ? whole.only_trial_id === data.id : isSingle(data);
  const home = useHome(data);
  const tab = TABS.find((name) => name === search.tab) ?? home ?? "metrics";
  const tabs = useTabs(data, tab, isOnly);
  const title = isOnly ? data.experiment_name : t("trial.title", { name: data.experiment_name, no: data.no });
  const isLog = tab === "logs";
  return (
    <>
      <TrialHead trial={data} experiment={whole} isOnly={isOnly} title={title} isShort={isLog} />
      <Why trial={data} />
      <WasteNotice trial={data} owner={whole?.owner ?? null} />
      {data.is_reused ? <Reused trial={data} /> : null}
      {data.notices.map((notice) => (
        <Notice key={notice.text} tone="warn">
          <span data-testid="notice">
            <Reason text={notice.text} parts={notice.parts} />
          </span>
        </Notice>
      ))}
      {data.attempts.length > 0 || data.unmanaged !== null ? <TrialStrip trial={data} isShort={isLog} /> : null}
      <Tabs active={tab} label={title} tabs={tabs} home={home} />
      <ErrorBoundary resetKey={tab}>
        {tab === "metrics" ? <Metrics trial={data} /> : null}
        {tab === "logs" ? <Logs trial={data} /> : null}
        {tab === "performance" ? <Performance trial={data} /> : null}
        {tab === "goodput" ? <Goodput trial={data} /> : null}
        {tab === "system" ? <System trial={data} /> : null}
        {tab === "ranks" ? <Ranks trial={data} /> : null}
        {tab === "media" ? <Media trial={data} /> : null}
        {tab === "outputs" ? <Outputs trial={data} /> : null}
        {tab === "checkpoints" ? <Checkpoints trial={data} /> : null}
        {tab === "evaluation" ? <Evaluation trial={data} /> : null}
        {tab === "config" ? <Config trial={data} experiment={whole} /> : null}
        {tab === "details" && whole ? <Details experiment={whole} /> : null}
        {tab === "events" ? (
          <>
            <Attempts trial={data} />
            <TrialEvents trialId={data.id} />
          </>
        ) : null}
      </ErrorBoundary>
    </>
  );
}

/** What a trial says that has not run, and shows the result of another one. */
function Reused({ trial: { reused_from: source } }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  return (
    <Notice>
      <span data-testid="reused">
        {t("trial.reused")}{" "}
        {source ? (
          <Link to="/trials/$trialId" params={{ trialId: String(source.id) }}>
            {t("trial.reusedFrom", { trial: `${source.experiment_id}.${source.no}` })}
          </Link>
        ) : null}
      </span>
    </Notice>
  );
}

/** The tab of media is there when there are any, and says under how many names. */
function useTabs(data: TrialDetail, active: TabName, isOnly: boolean): { id: string; label: string }[] {
  const { t } = useTranslation();
  const found = useQuery(mediaOverview(data.id, !isTerminal(data.state))).data;
  const hasMedia = found !== undefined && (found.num_series > 0 || found.dropped.length > 0);
  const isShown = (name: TabName): boolean =>
    name === active || (isApplicable(name, data) && (name === "media" ? hasMedia : name !== "details" || isOnly));
  return TABS.filter(isShown).map((name) => {
    const label = t(`trial.tab.${name}`);
    return { id: name, label: name === "media" && hasMedia ? `${label} ${format.count(found.num_series)}` : label };
  });
}
