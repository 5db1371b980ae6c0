import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { StateBadge } from "../../../components/StateBadge";
import { type Column, column, DataTable, numeric } from "../../../components/tables/DataTable";
import * as format from "../../../lib/format";
import type { Results } from "./searchData";

interface Props {
  results: Results;
  metric: (number | null)[];
  /** Indexes of trials in `results`, in this order. */
  shown: number[];
  label: string;
  /** Columns in front of the others. */
  first?: Column<number>[];
}

/** Trials by index, with their state, their results and their hyperparameters. */
export function TrialTable({ results, metric, shown, label, first = [] }: Props) {
  const { t } = useTranslation();
  const objectives =
    results.objectives.length === 0
      ? [numeric("metric", results.metric_name ?? t("experiment.metric"), (i: number) => format.num(metric[i] ?? null))]
      : results.objectives.map((one, no) =>
          numeric(`objective.${no}`, one.metric, (i: number) => format.num(format.fromWire(one.values[i] ?? null))),
        );
  return (
    <DataTable<number>
      rows={shown}
      rowKey={(i) => String(results.id[i])}
      label={label}
      cards={false}
      columns={[
        ...first,
        numeric("no", t("trials.trial"), (i) => (
          <Link to="/trials/$trialId" params={{ trialId: String(results.id[i]) }}>
            {results.no[i]}
          </Link>
        )),
        column("state", t("experiments.state"), (i) => <StateBadge state={results.state[i] ?? ""} />),
        ...objectives,
        ...results.parameters.map((parameter, no) =>
          numeric(parameter.name, parameter.name, (i: number) => {
            const raw = results.values[no]?.[i] ?? null;
            return typeof raw === "number" ? format.num(raw) : (raw ?? "–");
          }),
        ),
      ]}
    />
  );
}
