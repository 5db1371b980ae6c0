import { useTranslation } from "react-i18next";

import type { OutputsSummary } from "../../../api/queries";
import layout from "../../../components/layout.module.css";
import { Until } from "../../../components/Time";
import * as format from "../../../lib/format";

/** How long the experiment's document keeps these files; nothing if they stay until somebody deletes them. */
export function OutputsRetention({ summary }: { summary: OutputsSummary }) {
  const { t } = useTranslation();
  const { keep, held } = summary;
  if (keep === null) return null;
  const rules = [
    ...(keep.days === null ? [] : [t("outputs.keepDays", { days: format.num(keep.days, 3) })]),
    ...(keep.max_bytes === null ? [] : [t("outputs.keepSize", { size: format.bytes(keep.max_bytes) })]),
    ...(keep.experiment_best === 0 ? [] : [t("outputs.keepBest", { count: keep.experiment_best })]),
  ];
  return (
    <p className={`dim ${layout["aboveM"]}`} data-testid="outputs-retention">
      {rules.join(" ")}{" "}
      {held ? (
        <>
          {t("outputs.held")} <span lang="en">{held}</span>
        </>
      ) : summary.expires_at !== null ? (
        <>
          {t("outputs.expires")} <Until at={summary.expires_at} />
        </>
      ) : null}
    </p>
  );
}
