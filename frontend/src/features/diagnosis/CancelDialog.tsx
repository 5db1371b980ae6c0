import { useMutation } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import type { Diagnosis } from "../../api/queries";
import { Confirm } from "../../components/Confirm";
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
  const cancel = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/diagnoses/{diagnosis_id}:cancel", { params: { path: { diagnosis_id: found.id } } })),
    onSuccess: async () => {
      onClose();
      await onCanceled();
    },
  });
  const over = probesOver(found).length;
  return (
    <Confirm
      opened
      onClose={onClose}
      title={t("diagnosis.ask.title", { id: found.id })}
      action={t("diagnosis.ask.action")}
      dismiss={t("diagnosis.ask.dismiss")}
      pending={cancel.isPending}
      error={cancel.error}
      onConfirm={() => cancel.mutate()}
    >
      <p className={layout["text"]} data-testid="cancel-text">
        {t("diagnosis.ask.lost", { count: found.probes.length, done: over })}
      </p>
      <p className={`dim ${layout["text"]} ${layout["aboveM"]}`}>{t("diagnosis.ask.kept")}</p>
    </Confirm>
  );
}
