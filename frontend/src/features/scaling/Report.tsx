import { Button } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { ScalingReport } from "../../api/scaling";
import chartCss from "../../charts/chart.module.css";
import { Empty, Meter, Notice, Section } from "../../components/basics";
import { stateWord } from "../../components/StateBadge";
import { CurveFigure } from "./CurveFigure";
import { NetworkFields, problemsOf, SizesField } from "../../common/scaling/fields";
import { PartsFigure } from "./PartsFigure";
import { Doubts, MeasuredTable, ModelWords, PredictionTable, RunTable } from "./ReportTables";
import { askedAs, type NetworkText, underway } from "../../common/scaling/scalingData";
import layout from "../../components/layout.module.css";

/** One report: how far it is, what was measured, the model fitted to it, and what it predicts. */
export function Report({ report, busy }: { report: ScalingReport; busy: boolean }) {
  const { t } = useTranslation();
  const { sizes, model } = report;
  return (
    <div aria-busy={busy} data-testid="scaling-report" data-state={report.state}>
      <State report={report} />
      {sizes.length === 0 ? (
        <Empty title={report.state === "running" ? t("scaling.nothing") : t("scaling.nothingEnded")} />
      ) : (
        <Section title={t("scaling.measured")} note={t("scaling.measuredNote")}>
          <div className={`${chartCss["grid"]} ${layout["belowXl"]}`}>
            <CurveFigure report={report} kind="speedup" />
            <CurveFigure report={report} kind="efficiency" />
            <PartsFigure sizes={sizes} />
          </div>
          <MeasuredTable sizes={sizes} />
          <p className={`dim ${layout["text"]} ${layout["aboveS"]} ${layout["small"]}`}>{t("scaling.partsNote")}</p>
        </Section>
      )}
      {model ? (
        <>
          <Section guide="guides/scaling#predict-larger-clusters" title={t("scaling.predicted")}>
            <p className={`dim ${layout["text"]} ${layout["belowM"]}`}>{t("scaling.predictedNote")}</p>
            <Ask />
            <Doubts predictions={report.predictions} />
            {report.predictions.length > 0 ? (
              <PredictionTable predictions={report.predictions} />
            ) : (
              <Empty title={t("scaling.noPrediction")} />
            )}
          </Section>
          <Section
            guide="concepts/cost-model"
            title={t("scaling.model")}
            note={t("scaling.modelNote", { count: model.num_transfers })}
          >
            <ModelWords model={model} />
          </Section>
        </>
      ) : null}
      <Section title={t("scaling.runsHead")}>
        <RunTable points={report.points} />
      </Section>
    </div>
  );
}

function State({ report }: { report: ScalingReport }) {
  const { t } = useTranslation();
  if (report.state === "canceled")
    return (
      <Notice tone="warn" title={t("scaling.canceled")}>
        {report.reason}
      </Notice>
    );
  if (report.state === "failed")
    return (
      <Notice tone="bad" title={t("scaling.failed")}>
        {report.reason}
      </Notice>
    );
  if (report.state === "done") return report.reason ? <Notice>{report.reason}</Notice> : null;
  const next = underway(report);
  const done = { done: report.num_over, all: report.num_runs };
  return (
    <Notice title={t("scaling.running", done)}>
      <span data-testid="scaling-now">
        {!next ? (
          t("scaling.finishing")
        ) : next.experiment_id === null ? (
          t("scaling.launching", { slots: next.slots, repeat: next.repeat })
        ) : (
          <>
            {t("scaling.now", { slots: next.slots, repeat: next.repeat })}{" "}
            <Link to="/experiments/$experimentId" params={{ experimentId: String(next.experiment_id) }}>
              {t("experiment.ref", { id: next.experiment_id })}
            </Link>{" "}
            {next.state === null ? null : t("scaling.nowState", { state: stateWord(t, next.state) })}
          </>
        )}
      </span>
      <div className={`${layout["aboveM"]} ${layout["narrow"]}`}>
        <Meter value={done.done / Math.max(done.all, 1)} label={t("scaling.running", done)} />
      </div>
    </Notice>
  );
}

/** Other sizes and other networks; what is asked is in the address. */
function Ask() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/experiments/$experimentId/scaling" });
  const navigate = useNavigate({ from: "/experiments/$experimentId/scaling" });
  const [sizes, setSizes] = useState(search.slots ?? "");
  const [network, setNetwork] = useState<NetworkText>({
    bandwidth: search.bandwidth ?? "",
    latency: search.latency ?? "",
    measured: search.measured ?? "",
  });
  const ready = problemsOf(t, sizes, network.bandwidth) === null;
  return (
    <form
      className={`${layout["fields"]} ${layout["belowXl"]}`}
      onSubmit={(event) => {
        event.preventDefault();
        if (ready)
          void navigate({
            search: (before) => ({ report: before.report, ...askedAs(sizes, network) }),
            replace: true,
          });
      }}
    >
      <SizesField label={t("scaling.form.predict")} value={sizes} onChange={setSizes} kind="predicted" />
      <NetworkFields value={network} onChange={setNetwork} />
      <Button type="submit" variant="default" disabled={!ready} data-testid="scaling-predict">
        {t("scaling.form.show")}
      </Button>
    </form>
  );
}
