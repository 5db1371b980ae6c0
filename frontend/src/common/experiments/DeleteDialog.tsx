import { Switch } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { DELETING } from "../../api/liveHooks";
import { deletionPlan, type ExperimentDetail } from "../../api/queries";
import { Notice } from "../../components/basics";
import { Confirm } from "../../components/dialogs/Confirm";
import { QueryView } from "../../components/QueryView";
import { Freed } from "./Freed";
import layout from "../../components/layout.module.css";

/** Says what would go, file by storage and byte, before it goes. */
export function DeleteDialog({ experiment: data, onClose }: { experiment: ExperimentDetail; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const plan = useQuery(deletionPlan(data.id));
  const [keepFiles, setKeepFiles] = useState(false);
  const remove = useMutation({
    mutationKey: DELETING,
    mutationFn: () =>
      unwrap(
        client.DELETE("/api/v1/experiments/{experiment_id}", {
          params: { path: { experiment_id: data.id }, query: { keep_files: keepFiles } },
        }),
      ),
    onSuccess: () => navigate({ to: "/experiments" }),
    onSettled: () => queryClient.invalidateQueries(),
  });
  const freed = plan.data?.freed;
  return (
    <Confirm
      opened
      onClose={onClose}
      title={t("deletion.title", { name: data.name, id: data.id })}
      action={t("operation.delete")}
      ready={plan.data?.possible === true}
      typed={freed && freed.num_checkpoints > 0 && !keepFiles ? String(data.id) : undefined}
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
    >
      <QueryView query={plan}>
        {(found) => (
          <div data-testid="deletion">
            {found.possible ? null : <Notice tone="warn" title={found.reason} />}
            <p className={`${layout["text"]} ${layout["belowM"]}`}>{t("deletion.forGood")}</p>
            <Freed freed={found.freed} keepFiles={keepFiles} />
            {found.freed.num_checkpoints > 0 ? (
              <Switch
                mt="sm"
                label={t("deletion.keepFiles")}
                checked={keepFiles}
                onChange={(e) => setKeepFiles(e.currentTarget.checked)}
              />
            ) : null}
            {data.num_children > 0 ? (
              <p className={`dim ${layout["text"]} ${layout["aboveM"]}`}>
                {t("deletion.children", { count: data.num_children })}
              </p>
            ) : null}
          </div>
        )}
      </QueryView>
    </Confirm>
  );
}
