import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { Confirm } from "../../components/Confirm";
import layout from "../../components/layout.module.css";

/** Asks before one trial of several is stopped; an experiment of one trial is stopped as such. */
export function StopDialog({
  trial,
  onClose,
}: {
  trial: { id: number; no: number; name: string; slots: number };
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const stop = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/trials/{trial_id}:stop", { params: { path: { trial_id: trial.id } } })),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  return (
    <Confirm
      opened
      onClose={onClose}
      title={t("stop.trial")}
      action={t("stop.confirm")}
      pending={stop.isPending}
      error={stop.error}
      onConfirm={() => stop.mutate()}
    >
      <p data-testid="stop-text" className={layout["text"]}>
        {t("stop.trialText", { name: trial.name, no: trial.no, slots: trial.slots })}
      </p>
      <p className={`dim ${layout["text"]} ${layout["aboveM"]}`}>{t("stop.effect")}</p>
    </Confirm>
  );
}
