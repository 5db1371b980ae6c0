import { Autocomplete, Textarea } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { modelList } from "../../api/queries";
import { Notice } from "../../components/basics";
import { FormDialog } from "../../components/dialogs/FormDialog";
import layout from "../../components/layout.module.css";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const MAX_TEXT = 50_000;

export type RegisterSource = { checkpointId: number; step: number } | { trialId: number };

/** Makes a version of a checkpoint or of outputs, and leads to it. */
export function RegisterDialog({ source, onClose }: { source: RegisterSource; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const known = useInfiniteQuery(modelList(undefined)).data?.pages.flatMap((page) => page.items) ?? [];
  const [name, setName] = useState("");
  const [paths, setPaths] = useState("");
  const [notes, setNotes] = useState("");
  const isCheckpoint = "checkpointId" in source;
  const register = useMutation({
    mutationFn: () => {
      const listed = paths.split("\n").map((path) => path.trim());
      const what = isCheckpoint
        ? { checkpoint_id: source.checkpointId, paths: [] }
        : { trial_id: source.trialId, paths: listed.filter((path) => path !== "") };
      const body = { ...what, notes, files: [], metrics: {}, tags: {} };
      return unwrap(client.POST("/api/v1/models/{name}/versions", { params: { path: { name } }, body }));
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["models"] });
      await queryClient.invalidateQueries({ queryKey: ["model", name] });
    },
  });
  const done = register.data;
  return (
    <FormDialog
      title={isCheckpoint ? t("models.registerCheckpoint", { step: source.step }) : t("models.registerOutputs")}
      action={t("models.registerAction")}
      ready={NAME.test(name) && done === undefined}
      pending={register.isPending}
      error={register.error}
      testId="register-form"
      onSubmit={() => register.mutate()}
      onClose={onClose}
    >
      <Autocomplete
        label={t("models.registerName")}
        description={t("models.registerNameHint")}
        data={known.map((each) => each.name)}
        value={name}
        onChange={setName}
        maxLength={64}
        autoComplete="off"
        spellCheck={false}
        data-autofocus
        data-testid="register-name"
      />
      {isCheckpoint ? null : (
        <Textarea
          label={t("models.registerPaths")}
          description={t("models.registerPathsHint")}
          value={paths}
          onChange={(event) => setPaths(event.currentTarget.value)}
          autosize
          minRows={2}
          spellCheck={false}
          data-testid="register-paths"
        />
      )}
      <Textarea
        label={t("models.notes")}
        value={notes}
        onChange={(event) => setNotes(event.currentTarget.value)}
        autosize
        minRows={2}
        maxLength={MAX_TEXT}
      />
      <p className={`dim ${layout["text"]}`}>{t("models.registerKept")}</p>
      {done ? (
        <Notice
          tone="ok"
          title={t(done.is_new ? "models.registeredAs" : "models.registeredAlready", {
            name: done.model,
            version: done.number,
          })}
        >
          <Link
            to="/models/$name/versions/$number"
            params={{ name: done.model, number: String(done.number) }}
            data-testid="open-version"
          >
            {t("models.open")}
          </Link>
        </Notice>
      ) : null}
    </FormDialog>
  );
}
