import { Button, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { experiment, type ExperimentDetail, me } from "../../api/queries";
import { exportAddress, scalingReport, type ScalingReportItem, scalingReports } from "../../api/scaling";
import { Empty, PageHead } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { Stamp } from "../../components/Time";
import { mayChange } from "../../lib/access";
import { CancelDialog } from "./CancelDialog";
import { Report } from "./Report";
import { askedIn } from "../../common/scaling/scalingData";
import { StartDialog } from "../../common/scaling/StartDialog";

/** How an experiment trains on more slots and fewer. */
export function ScalingPage() {
  const { experimentId } = useParams({ from: "/app/experiments/$experimentId/scaling" });
  const id = Number(experimentId);
  const whole = useQuery(experiment(id));
  useLiveQueries(`experiment:${id}`, ["scaling", id]);
  return (
    <QueryView query={whole} isPage>
      {(data) => <OfExperiment experiment={data} key={data.id} />}
    </QueryView>
  );
}

function OfExperiment({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const all = useQuery(scalingReports(data.id));
  const wanted = useSearch({ from: "/app/experiments/$experimentId/scaling" }).report;
  // A report beyond the newest page is not on the list, but has its address.
  const shown = wanted ?? all.data?.[0]?.id;
  const item = all.data?.find((one) => one.id === shown);
  return (
    <>
      <PageHead
        guide="guides/scaling#read-the-report"
        title={t("scaling.title", { name: data.name })}
        actions={<Actions experiment={data} reports={all.data} shown={shown} />}
        sub={
          <>
            <span>
              <Link to="/experiments/$experimentId" params={{ experimentId: String(data.id) }}>
                {t("experiment.ref", { id: data.id })}
              </Link>
            </span>
            {item ? (
              <>
                <span>{t(`scaling.state.${item.state}`)}</span>
                <span>{t(`scaling.mode.${item.mode}`)}</span>
                <span>{t("scaling.runs", { count: item.num_runs, steps: item.num_steps })}</span>
                <span>{t("scaling.by", { who: item.requested_by })}</span>
                <Stamp at={item.created_at} />
              </>
            ) : null}
          </>
        }
      />
      <QueryView query={all}>
        {(list) =>
          shown === undefined ? (
            <Empty title={t("scaling.none")}>{t("scaling.what")}</Empty>
          ) : (
            <>
              {list.length > 1 ? <Earlier list={list} shown={shown} /> : null}
              <Shown experimentId={data.id} reportId={shown} key={shown} />
            </>
          )
        }
      </QueryView>
    </>
  );
}

function Shown({ experimentId, reportId }: { experimentId: number; reportId: number }) {
  const search = useSearch({ from: "/app/experiments/$experimentId/scaling" });
  const query = useQuery(scalingReport(experimentId, reportId, askedIn(search)));
  return <QueryView query={query}>{(report) => <Report report={report} busy={query.isPlaceholderData} />}</QueryView>;
}

function Actions({
  experiment: data,
  reports,
  shown,
}: {
  experiment: ExperimentDetail;
  reports: ScalingReportItem[] | undefined;
  shown: number | undefined;
}) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const search = useSearch({ from: "/app/experiments/$experimentId/scaling" });
  const [asked, setAsked] = useState<"start" | "cancel" | null>(null);
  const running = reports?.find((one) => one.state === "running");
  const save = (format: "markdown" | "csv", label: string) =>
    shown === undefined ? null : (
      <Button
        component="a"
        variant="default"
        href={exportAddress(shown, format, askedIn(search))}
        download
        data-testid={`scaling-${format}`}
      >
        {label}
      </Button>
    );
  return (
    <>
      {save("markdown", t("scaling.asMarkdown"))}
      {save("csv", t("scaling.asCsv"))}
      {!reports || !mayChange(user, data.owner) ? null : running ? (
        <Button color="red" variant="light" onClick={() => setAsked("cancel")} data-testid="scaling-cancel">
          {t("scaling.cancel")}
        </Button>
      ) : (
        <Button
          variant={reports.length === 0 ? "filled" : "default"}
          onClick={() => setAsked("start")}
          data-testid="scaling-start"
        >
          {reports.length === 0 ? t("scaling.start") : t("scaling.again")}
        </Button>
      )}
      {asked === "start" ? <StartDialog experiment={data} onClose={() => setAsked(null)} /> : null}
      {asked === "cancel" && running ? <CancelDialog report={running} onClose={() => setAsked(null)} /> : null}
    </>
  );
}

function Earlier({ list, shown }: { list: ScalingReportItem[]; shown: number }) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/experiments/$experimentId/scaling" });
  const label = (one: ScalingReportItem): string =>
    t("scaling.item", { id: one.id, mode: t(`scaling.mode.${one.mode}`), state: t(`scaling.state.${one.state}`) });
  const data = list.map((one) => ({ value: String(one.id), label: label(one) }));
  return (
    <Select
      aria-label={t("scaling.earlier")}
      size="xs"
      w={320}
      mb="sm"
      allowDeselect={false}
      value={String(shown)}
      onChange={(id) => void navigate({ search: { report: Number(id) }, replace: true })}
      data={data}
    />
  );
}
