import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import layout from "../../../components/layout.module.css";

/** Asks before one trial of several is stopped; an experiment of one trial is stopped as such. */
export function StopDialog({
  trial,
  onClose,
}: {
  trial: { id: number; no: number; name: string; slots: number };
  onClose: () => void;
}) {
  const { t } = useTranslation();
  return (
    <ConfirmAction
      onClose={onClose}
      title={t("stop.trial")}
      action={t("stop.confirm")}
      run={() => unwrap(client.POST("/api/v1/trials/{trial_id}:stop", { params: { path: { trial_id: trial.id } } }))}
    >
      <p data-testid="stop-text" className={layout["text"]}>
        {t("stop.trialText", { name: trial.name, no: trial.no, slots: trial.slots })}
      </p>
      <p className={`dim ${layout["text"]} ${layout["aboveM"]}`}>{t("stop.effect")}</p>
    </ConfirmAction>
  );
}
