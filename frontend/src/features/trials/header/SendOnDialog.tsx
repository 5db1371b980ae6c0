import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import layout from "../../../components/layout.module.css";

/** Asks before a trial that waits at its rung is sent on past the search's own decision. */
export function SendOnDialog({
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
      title={t("sendOn.title")}
      action={t("sendOn.action")}
      danger={false}
      run={() => unwrap(client.POST("/api/v1/trials/{trial_id}:promote", { params: { path: { trial_id: trial.id } } }))}
    >
      <p data-testid="send-on-text" className={layout["text"]}>
        {t("sendOn.text", { name: trial.name, no: trial.no, slots: t("trial.slots", { count: trial.slots }) })}
      </p>
    </ConfirmAction>
  );
}
