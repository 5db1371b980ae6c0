import { Button, Group, Modal, NumberInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../api/client";
import { ErrorNotice } from "./QueryView";
import layout from "./layout.module.css";

export const MAX_PRIORITY = 100;

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
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (valid) save.mutate();
  };
  return (
    <Modal
      opened
      onClose={onClose}
      title={t("priority.title", { name: experiment.name })}
      centered
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <form onSubmit={submit} data-testid="priority-form">
        <p className={`${layout["text"]} ${layout["belowL"]}`}>{t("priority.text", { id: experiment.id })}</p>
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
        {save.error ? <ErrorNotice error={save.error} /> : null}
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button type="submit" loading={save.isPending} disabled={!valid}>
            {t("common.save")}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
