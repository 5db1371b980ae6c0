import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { type TrialDetail, type TrialPlan, trialPlan } from "../../../api/queries";
import { Notice, Section } from "../../../components/basics";
import { column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
import { Reason } from "../../../components/text/Message";
import * as format from "../../../lib/format";

interface Line {
  id: "memory" | "bytes" | "step";
  expected: string;
  measured: string;
  ratio: number | null;
  note: string;
}

/** What the planner expected of a trial, beside what the trial has measured. */
export function Foreseen({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const plan = useQuery(trialPlan(trial.id)).data;
  if (!plan || plan.strategy === "") return null; // a script of one's own
  if (!plan.known)
    return (
      <Section title={t("foreseen.title")} testId="foreseen-unknown">
        <Notice>
          <Reason text={plan.reason} parts={plan.reason_parts} />
        </Notice>
      </Section>
    );
  return (
    <Section
      guide="guides/planning#compare-the-plan-with-the-measurement"
      title={t("foreseen.title")}
      note={t("foreseen.note", { n: plan.num_rows })}
    >
      {plan.remarks.map((remark) => (
        <div key={remark.about} data-testid={`foreseen-remark-${remark.about}`}>
          <Notice
            tone="warn"
            title={t("foreseen.far", { figure: t(`foreseen.${remark.about}`), ratio: format.num(remark.ratio, 3) })}
          >
            <Reason text={remark.text} parts={remark.parts} />
          </Notice>
        </div>
      ))}
      <DataTable<Line>
        rows={lines(plan, t("foreseen.rss", { size: format.bytes(plan.measured_rss_bytes) }))}
        rowKey={(line) => line.id}
        label={t("foreseen.title")}
        testId="foreseen"
        columns={[
          lead("what", t("foreseen.what"), (line) => <b>{t(`foreseen.${line.id}`)}</b>),
          numeric("expected", t("foreseen.expected"), (line) => line.expected),
          numeric("measured", t("foreseen.measured"), (line) => line.measured),
          numeric("ratio", t("foreseen.ratio"), (line) =>
            line.ratio === null ? format.MISSING : format.num(line.ratio, 3),
          ),
          column("note", t("foreseen.details"), (line) => (
            <span className="dim">
              <Reason text={line.note} parts={undefined} />
            </span>
          )),
        ]}
      />
    </Section>
  );
}

function lines(plan: TrialPlan, rss: string): Line[] {
  const step = plan.step_ms;
  const interval =
    step && step.low !== null && step.high !== null
      ? ` (${format.ms(step.low)} … ${format.ms(step.high)}, n=${step.n})`
      : "";
  const total = plan.memory?.total ?? null;
  return [
    {
      id: "memory",
      expected: format.bytes(total),
      measured: format.bytes(plan.measured_memory_bytes),
      ratio: over(total, plan.measured_memory_bytes),
      note: plan.measured_memory_bytes === null && plan.measured_rss_bytes !== null ? rss : "",
    },
    {
      id: "bytes",
      expected: format.bytes(plan.bytes_per_step),
      measured: format.bytes(plan.measured_bytes_per_step),
      ratio: over(plan.bytes_per_step, plan.measured_bytes_per_step),
      note: "",
    },
    {
      id: "step",
      expected: step ? `${format.ms(step.value)}${interval}` : format.MISSING,
      measured: format.ms(plan.measured_step_ms),
      ratio: over(step?.value ?? null, plan.measured_step_ms),
      note: plan.time_source,
    },
  ];
}

function over(expected: number | null, measured: number | null): number | null {
  return expected !== null && measured ? expected / measured : null;
}
