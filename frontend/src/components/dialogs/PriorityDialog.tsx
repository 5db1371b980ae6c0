import { NumberInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { FormDialog } from "./FormDialog";
import layout from "../layout.module.css";

const MAX_PRIORITY = 100;

/** Change an experiment's priority; says that it holds for all of its trials. */
export function PriorityDialog({
  experiment,
  onClose,
}: {
  experiment: { id: number; name: string; priority: number };
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [value, setValue] = useState<number | string>(experiment.priority);
  const valid = Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MAX_PRIORITY;
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.PATCH("/api/v1/experiments/{experiment_id}", {
          params: { path: { experiment_id: experiment.id } },
          body: { priority: Number(value) },
        }),
      ),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  return (
    <FormDialog
      title={t("priority.title", { name: experiment.name })}
      ready={valid}
      pending={save.isPending}
      error={save.error}
      testId="priority-form"
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <p className={layout["text"]}>{t("priority.text", { id: experiment.id })}</p>
      <NumberInput
        label={t("queue.priority")}
        value={value}
        onChange={setValue}
        min={0}
        max={MAX_PRIORITY}
        allowDecimal={false}
        data-autofocus
        w={140}
      />
    </FormDialog>
  );
}
