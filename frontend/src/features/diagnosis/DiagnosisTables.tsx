import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { Diagnosis } from "../../api/queries";
import { Meter } from "../../components/basics";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import * as format from "../../lib/format";
import { interval, probeName, signed } from "./words";
import layout from "../../components/layout.module.css";

const PARTS = ["communication", "data", "straggler", "compute"] as const;

interface ShareRow {
  part: (typeof PARTS)[number];
  share: Diagnosis["shares"][string];
}

/** Shares of the step with their intervals. */
export function SharesTable({ shares }: { shares: Diagnosis["shares"] }) {
  const { t } = useTranslation();
  const rows = PARTS.flatMap((part): ShareRow[] => {
    const share = shares[part];
    return share ? [{ part, share }] : [];
  });
  const columns: Column<ShareRow>[] = [
    lead("part", t("diagnosis.share.name"), (row) => <b>{t(`diagnosis.share.${row.part}`)}</b>),
    column("share", t("diagnosis.share.value"), (row) => (
      <Meter
        value={row.share.value}
        label={t(`diagnosis.share.${row.part}`)}
        tone={row.part === "compute" ? "ok" : "warn"}
      />
    )),
    numeric(
      "interval",
      t("diagnosis.share.interval"),
      (row) => `${interval(row.share).low} … ${interval(row.share).high}`,
    ),
    numeric("n", t("diagnosis.share.n"), (row) => row.share.num),
  ];
  return (
    <DataTable
      rows={rows}
      columns={columns}
      rowKey={(row) => row.part}
      label={t("diagnosis.shares")}
      testId="diagnosis-shares"
    />
  );
}

interface ProbeRow {
  probe: string;
  measured: Diagnosis["measured"][number] | undefined;
  trials: Diagnosis["probes"];
}

/** Every kind of probe: its step time, what that is against the training as it is, and its trials. */
export function MeasuredTable({ diagnosis }: { diagnosis: Diagnosis }) {
  const { t } = useTranslation();
  const kinds = [...new Set(diagnosis.probes.map((probe) => probe.probe))];
  const base = diagnosis.measured.find((one) => one.probe === "as_is")?.step_ms?.value;
  const rows = kinds.map((probe): ProbeRow => ({
    probe,
    measured: diagnosis.measured.find((one) => one.probe === probe),
    trials: diagnosis.probes.filter((one) => one.probe === probe),
  }));
  const columns: Column<ProbeRow>[] = [
    lead("probe", t("diagnosis.probe.name"), (row) => <b>{probeName(t, row.probe)}</b>),
    numeric("step", t("diagnosis.probe.step"), (row) => <StepTime measured={row.measured} />),
    numeric("differs", t("diagnosis.probe.differs"), (row) =>
      base && row.probe !== "as_is" && row.measured?.step_ms
        ? signed(row.measured.step_ms.value / base - 1)
        : format.MISSING,
    ),
    column("trials", t("diagnosis.probe.trials"), (row) =>
      row.trials.map((one) => <ProbeTrial key={one.repeat} probe={one} />),
    ),
  ];
  return (
    <DataTable
      rows={rows}
      columns={columns}
      rowKey={(row) => row.probe}
      label={t("diagnosis.evidence")}
      testId="diagnosis-probes"
    />
  );
}

function StepTime({ measured }: { measured: ProbeRow["measured"] }) {
  if (!measured) return format.MISSING;
  const all = measured.repeats_ms.map((value) => format.ms(value)).join(", ");
  if (!measured.step_ms) return <span className="dim">{all}</span>;
  return (
    <span title={all}>
      {format.ms(measured.step_ms.value)}{" "}
      <span className="dim">
        ({format.ms(measured.step_ms.low)} … {format.ms(measured.step_ms.high)}, n={measured.step_ms.num})
      </span>
    </span>
  );
}

function ProbeTrial({ probe }: { probe: Diagnosis["probes"][number] }) {
  if (probe.trial_id === null) return <span className="dim">{probe.repeat} </span>;
  const failed = probe.state === "FAILED" || probe.state === "CANCELED";
  return (
    <span className={layout["beforeNext"]}>
      <Link
        to="/trials/$trialId"
        params={{ trialId: String(probe.trial_id) }}
        title={probe.reason || (probe.state ?? "")}
      >
        {probe.repeat}
        {failed ? " ✕" : probe.state === "COMPLETED" ? " ✓" : " …"}
      </Link>
    </span>
  );
}
