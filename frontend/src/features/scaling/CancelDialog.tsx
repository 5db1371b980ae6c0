import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import type { ScalingReportItem } from "../../api/scaling";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import layout from "../../components/layout.module.css";

/** Asks before a report is canceled: what was measured stays, and so does all that it has cost. */
export function CancelDialog({ report, onClose }: { report: ScalingReportItem; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <ConfirmAction
      onClose={onClose}
      title={t("scaling.ask.title", { id: report.id })}
      action={t("scaling.ask.action")}
      dismiss={t("scaling.ask.dismiss")}
      run={() =>
        unwrap(
          client.POST("/api/v1/scaling-reports/{report_id}:cancel", { params: { path: { report_id: report.id } } }),
        )
      }
      changes={["scaling"]}
    >
      <p className={layout["text"]} data-testid="cancel-text">
        {t("scaling.ask.lost", { count: report.num_runs - report.num_over })} {t("scaling.ask.intervals")}
      </p>
      <p className={`dim ${layout["text"]} ${layout["aboveM"]}`}>
        {t("scaling.ask.kept", { count: report.num_over, all: report.num_runs })}
      </p>
    </ConfirmAction>
  );
}
