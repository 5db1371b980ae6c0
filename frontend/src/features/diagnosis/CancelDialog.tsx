import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import type { Diagnosis } from "../../api/queries";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import layout from "../../components/layout.module.css";
import { probesOver } from "./words";

/** Asks before a diagnosis is canceled, which leaves it without a result. */
export function CancelDialog({
  diagnosis: found,
  onCanceled,
  onClose,
}: {
  diagnosis: Diagnosis;
  onCanceled: () => Promise<void>;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const over = probesOver(found).length;
  return (
    <ConfirmAction
      onClose={onClose}
      title={t("diagnosis.ask.title", { id: found.id })}
      action={t("diagnosis.ask.action")}
      dismiss={t("diagnosis.ask.dismiss")}
      run={() =>
        unwrap(client.POST("/api/v1/diagnoses/{diagnosis_id}:cancel", { params: { path: { diagnosis_id: found.id } } }))
      }
      changes={["trial-diagnoses"]}
      onDone={onCanceled}
    >
      <p className={layout["text"]} data-testid="cancel-text">
        {t("diagnosis.ask.lost", { count: found.probes.length, done: over })}
      </p>
      <p className={`dim ${layout["text"]} ${layout["aboveM"]}`}>{t("diagnosis.ask.kept")}</p>
    </ConfirmAction>
  );
}
