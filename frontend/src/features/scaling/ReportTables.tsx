import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import type { CostModel, Estimate, Prediction, ScalingReport, ScalingSize } from "../../api/scaling";
import { KeyValues, Lines, Notice } from "../../components/basics";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { Reason } from "../../components/text/Message";
import { StateBadge } from "../../components/StateBadge";
import * as format from "../../lib/format";
import { intervalOf, isTooWide, MEASURED, times, withInterval } from "../../common/scaling/scalingData";
import layout from "../../components/layout.module.css";

/** A figure, and its interval in a line of its own: side by side the columns are wider than a page. */
function Figure({ of, show }: { of: Estimate; show: (value: number) => string }) {
  const { t } = useTranslation();
  return (
    <>
      {isTooWide(of) ? <span title={t("scaling.tooWideHint")}>{t("scaling.tooWide")}</span> : show(of.value)}
      <div className={`dim ${layout["small"]}`}>{intervalOf(t, of, show)}</div>
    </>
  );
}

const rate = (value: number): string => format.si(value, "/s");

/** Every measured size with its intervals and how much is behind them. */
export function MeasuredTable({ sizes }: { sizes: ScalingSize[] }) {
  const { t } = useTranslation();
  const columns: Column<ScalingSize>[] = [
    numeric("slots", t("scaling.slots"), (size) => <b>{size.slots}</b>, { lead: true }),
    numeric("speedup", t("scaling.speedup"), (size) => <Figure of={size.speedup} show={times} />),
    numeric("efficiency", t("scaling.efficiency"), (size) => <Figure of={size.efficiency} show={format.pct} />),
    numeric("rate", t("scaling.rate"), (size) => <Figure of={size.samples_per_s} show={rate} />),
    numeric("step", t("scaling.step"), (size) => <Figure of={size.step_ms} show={format.ms} />),
    numeric("samples", t("scaling.perSlot"), (size) => format.num(size.samples_per_slot)),
    numeric("steps", t("scaling.steps"), (size) => format.count(size.num_steps)),
  ];
  return (
    <DataTable
      rows={sizes}
      columns={columns}
      rowKey={(size) => size.slots}
      label={t("scaling.measured")}
      testId="scaling-measured"
    />
  );
}

/** Nothing where the prediction is doubted: a figure would be believed. */
const certain = (one: Prediction, cell: ReactNode): ReactNode => (one.doubt ? format.MISSING : cell);

/** Why some predictions are not shown, and what helps; each reason once. */
export function Doubts({ predictions }: { predictions: Prediction[] }) {
  const doubted = predictions.filter(
    (one, i) => one.doubt && predictions.findIndex((other) => other.doubt === one.doubt) === i,
  );
  return doubted.map((one) => (
    <div key={one.doubt} className={layout["belowM"]} data-testid="scaling-doubt">
      <Notice tone="warn">
        <Reason text={one.doubt} parts={one.doubt_parts} />
      </Notice>
    </div>
  ));
}

/** Predicted sizes, over each network that was asked for. */
export function PredictionTable({ predictions }: { predictions: Prediction[] }) {
  const { t } = useTranslation();
  const columns: Column<Prediction>[] = [
    numeric("slots", t("scaling.slots"), (one) => <b>{one.slots}</b>, { lead: true }),
    column("network", t("scaling.network"), (one) =>
      one.network === MEASURED ? t("scaling.networkMeasured") : one.network,
    ),
    numeric("step", t("scaling.step"), (one) =>
      one.doubt ? (
        <span className="dim">{t("scaling.notDetermined")}</span>
      ) : (
        <Figure of={one.step_ms} show={format.ms} />
      ),
    ),
    numeric("compute", t("scaling.part.compute"), (one) => certain(one, format.ms(one.compute_ms))),
    numeric("communication", t("scaling.communication"), (one) => certain(one, format.ms(one.communication_ms))),
    numeric("exposed", t("scaling.exposed"), (one) => certain(one, format.ms(one.exposed_ms))),
    numeric("rate", t("scaling.rate"), (one) => certain(one, <Figure of={one.samples_per_s} show={rate} />)),
    numeric("efficiency", t("scaling.efficiency"), (one) => certain(one, format.pct(one.efficiency))),
  ];
  return (
    <DataTable
      rows={predictions}
      columns={columns}
      rowKey={(one) => `${one.network} ${one.slots}`}
      label={t("scaling.predicted")}
      testId="scaling-predictions"
    />
  );
}

/** What was fitted, in words, and what the runs leave open. */
export function ModelWords({ model }: { model: CostModel }) {
  const { t } = useTranslation();
  const micro = (value: number): string => `${format.num(value, 3)} µs`;
  const bits = (value: number): string => format.si(value * 8, "bit/s", 3);
  const known = (estimate: Estimate | null, show: (value: number) => string): string =>
    estimate === null ? t("scaling.notDetermined") : withInterval(t, estimate, show);
  return (
    <>
      <KeyValues
        items={[
          [t("scaling.compute"), withInterval(t, model.compute_fixed_ms, format.ms)],
          [t("scaling.perSample"), withInterval(t, model.compute_per_sample_ms, format.ms)],
          [
            t("scaling.contention"),
            model.contention.n === 0 ? t("scaling.notDetermined") : withInterval(t, model.contention, times),
          ],
          [t("scaling.other"), withInterval(t, model.other_ms, format.ms)],
          [t("scaling.latency"), known(model.latency_us, micro)],
          [t("scaling.bandwidth"), known(model.bandwidth_bytes_per_s, bits)],
          [t("scaling.hiddenShare"), t("scaling.atMost", { share: format.pct(model.hidden_share) })],
          ...(model.step_error === null
            ? []
            : ([[t("scaling.stepError"), t("scaling.offByMean", { share: format.pct(model.step_error) })]] as [
                string,
                string,
              ][])),
          ...(model.transfer_error === null
            ? []
            : ([
                [t("scaling.transferError"), t("scaling.offByMedian", { share: format.pct(model.transfer_error) })],
              ] as [string, string][])),
        ]}
      />
      {model.reasons.length > 0 ? (
        <div className={layout["aboveL"]} data-testid="scaling-open">
          <b>{t("scaling.open")}</b>
          <Lines items={model.reasons} />
        </div>
      ) : null}
    </>
  );
}

type Point = ScalingReport["points"][number];

/** Every run with what it measured, or why it did not. */
export function RunTable({ points }: { points: Point[] }) {
  const { t } = useTranslation();
  const columns: Column<Point>[] = [
    lead("run", t("scaling.run"), (point) =>
      point.experiment_id === null ? (
        <span className="dim">{t("scaling.notLaunched")}</span>
      ) : point.state === null ? (
        <span className="dim">
          #{point.experiment_id} {t("scaling.deleted")}
        </span>
      ) : (
        <Link to="/experiments/$experimentId" params={{ experimentId: String(point.experiment_id) }}>
          #{point.experiment_id}
        </Link>
      ),
    ),
    numeric("slots", t("scaling.slots"), (point) => point.slots),
    numeric("repeat", t("scaling.repeat"), (point) => point.repeat),
    column("state", t("scaling.runState"), (point) =>
      point.state === null ? format.MISSING : <StateBadge state={point.state} />,
    ),
    numeric("step", t("scaling.step"), (point) => format.ms(point.step_ms)),
    numeric("rate", t("scaling.rate"), (point) =>
      point.samples_per_s === null ? format.MISSING : rate(point.samples_per_s),
    ),
    numeric("steps", t("scaling.steps"), (point) => format.count(point.num_steps)),
    ...(points.some((point) => point.problem !== "")
      ? [column("problem", t("scaling.problem"), (point: Point) => point.problem || format.MISSING)]
      : []),
  ];
  return (
    <DataTable
      rows={points}
      columns={columns}
      rowKey={(point) => `${point.slots} ${point.repeat}`}
      label={t("scaling.runsHead")}
      testId="scaling-runs"
    />
  );
}
