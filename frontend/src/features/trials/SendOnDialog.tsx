import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { Confirm } from "../../components/Confirm";
import layout from "../../components/layout.module.css";

/** Asks before a trial that waits at its rung is sent on past the search's own decision. */
export function SendOnDialog({
  trial,
  onClose,
}: {
  trial: { id: number; no: number; name: string; slots: number };
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const promote = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/trials/{trial_id}:promote", { params: { path: { trial_id: trial.id } } })),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  return (
    <Confirm
      opened
      onClose={onClose}
      title={t("sendOn.title")}
      action={t("sendOn.action")}
      danger={false}
      pending={promote.isPending}
      error={promote.error}
      onConfirm={() => promote.mutate()}
    >
      <p data-testid="send-on-text" className={layout["text"]}>
        {t("sendOn.text", { name: trial.name, no: trial.no, slots: t("trial.slots", { count: trial.slots }) })}
      </p>
    </Confirm>
  );
}
