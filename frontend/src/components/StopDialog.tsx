import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../api/client";
import { Confirm } from "./Confirm";

export type StopTarget =
  | { kind: "experiment"; id: number; name: string; trials: number; slots: number }
  | { kind: "trial"; id: number; no: number; name: string; slots: number };

/** Says exactly what will be stopped, then stops it. */
export function StopDialog({ opened, onClose, target }: { opened: boolean; onClose: () => void; target: StopTarget }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const stop = useMutation({
    mutationFn: async () => {
      if (target.kind === "experiment") {
        await unwrap(client.POST("/api/v1/experiments/{experiment_id}:stop", { params: { path: { experiment_id: target.id } } }));
      } else {
        await unwrap(client.POST("/api/v1/trials/{trial_id}:stop", { params: { path: { trial_id: target.id } } }));
      }
    },
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  return (
    <Confirm
      opened={opened}
      onClose={() => {
        stop.reset();
        onClose();
      }}
      title={t(target.kind === "experiment" ? "stop.experiment" : "stop.trial")}
      action={t("stop.confirm")}
      pending={stop.isPending}
      error={stop.error}
      onConfirm={() => stop.mutate()}
    >
      <p data-testid="stop-text" style={{ margin: 0 }}>
        {target.kind === "experiment"
          ? t("stop.experimentText", { name: target.name, id: target.id, count: target.trials, slots: target.slots })
          : t("stop.trialText", { name: target.name, no: target.no, slots: target.slots })}
      </p>
      <p className="dim" style={{ margin: "8px 0 0" }}>
        {t("stop.effect")}
      </p>
    </Confirm>
  );
}
