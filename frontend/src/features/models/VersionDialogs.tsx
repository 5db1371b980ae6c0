import { TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import type { ModelVersion } from "../../api/queries";
import { Confirm } from "../../components/dialogs/Confirm";
import { FormDialog } from "../../components/dialogs/FormDialog";

interface Props {
  version: ModelVersion;
  onClose: () => void;
}

const ALIAS = /^[a-z][a-z0-9_-]{0,31}$/;

/** After a change, everything that shows the model is asked again. */
function useChanged(name: string): () => Promise<void> {
  const queryClient = useQueryClient();
  return async () => {
    await queryClient.invalidateQueries({ queryKey: ["model", name] });
    await queryClient.invalidateQueries({ queryKey: ["models"] });
  };
}

export function AliasDialog({ version, onClose }: Props) {
  const { t } = useTranslation();
  const changed = useChanged(version.model);
  const [alias, setAlias] = useState("");
  const [reason, setReason] = useState("");
  const set = useMutation({
    mutationFn: () =>
      unwrap(
        client.PUT("/api/v1/models/{name}/aliases/{alias}", {
          params: { path: { name: version.model, alias } },
          body: { version: version.number, reason },
        }),
      ),
    onSuccess: async () => {
      await changed();
      onClose();
    },
  });
  return (
    <FormDialog
      title={t("models.setAliasOf", { version: version.number })}
      ready={ALIAS.test(alias)}
      pending={set.isPending}
      error={set.error}
      testId="alias-form"
      onSubmit={() => set.mutate()}
      onClose={onClose}
    >
      <TextInput
        label={t("models.alias")}
        description={t("models.aliasHint")}
        value={alias}
        onChange={(event) => setAlias(event.currentTarget.value.trim().toLowerCase())}
        maxLength={32}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        data-testid="alias-name"
      />
      <TextInput
        label={t("models.reason")}
        description={t("models.reasonHint")}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={500}
        data-testid="alias-reason"
      />
    </FormDialog>
  );
}

export function RemoveAlias({ version, alias, onClose }: Props & { alias: string }) {
  const { t } = useTranslation();
  const changed = useChanged(version.model);
  const remove = useMutation({
    mutationFn: () =>
      unwrap(
        client.DELETE("/api/v1/models/{name}/aliases/{alias}", {
          params: { path: { name: version.model, alias } },
        }),
      ),
    onSuccess: async () => {
      await changed();
      onClose();
    },
  });
  return (
    <Confirm
      opened
      title={t("models.removeAlias", { alias })}
      action={t("models.remove")}
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      {t("models.removeAliasHint", { name: version.model, alias })}
    </Confirm>
  );
}

export function DeleteVersion({ version, onClose }: Props) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const changed = useChanged(version.model);
  const { model: name, number } = version;
  const remove = useMutation({
    mutationFn: () =>
      unwrap(client.DELETE("/api/v1/models/{name}/versions/{number}", { params: { path: { name, number } } })),
    onSuccess: async () => {
      await navigate({ to: "/models/$name", params: { name } });
      await changed();
    },
  });
  return (
    <Confirm
      opened
      title={t("models.deleteVersion", { name, version: number })}
      action={t("models.deleteAction")}
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      {t("models.deleteVersionHint")}
    </Confirm>
  );
}
