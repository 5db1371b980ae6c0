import { Button, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { modelVersion, type ModelVersion } from "../../api/queries";
import { Section } from "../../components/basics";
import { FormDialog } from "../../components/dialogs/FormDialog";
import { Markdown } from "../../components/text/Markdown";
import layout from "../../components/layout.module.css";

const MAX_TEXT = 50_000;

/** What people wrote about a version, and the card that is made of what is known. */
export function Notes({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  const [isEditing, setIsEditing] = useState(false);
  return (
    <>
      <Section
        title={t("models.notes")}
        note={
          version.may_change ? (
            <Button variant="subtle" size="compact-xs" onClick={() => setIsEditing(true)} data-testid="edit-notes">
              {t("models.editNotes")}
            </Button>
          ) : null
        }
      >
        {version.notes ? <Markdown text={version.notes} /> : <p className="dim">{t("models.notesNone")}</p>}
      </Section>
      <Section title={t("models.card")} testId="model-card">
        <Markdown text={withoutTitle(version.card)} />
        <details className={layout["belowL"]}>
          <summary>{t("models.markdown")}</summary>
          <pre className={layout["scrolls"]}>{version.card}</pre>
        </details>
      </Section>
      {isEditing ? <EditNotes version={version} onClose={() => setIsEditing(false)} /> : null}
    </>
  );
}

/** The card below the page's own title. */
const withoutTitle = (card: string): string => card.replace(/^# .*\n+/, "");

function EditNotes({ version, onClose }: { version: ModelVersion; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const { model: name, number } = version;
  const [text, setText] = useState(version.notes);
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.PATCH("/api/v1/models/{name}/versions/{number}", {
          params: { path: { name, number } },
          body: { notes: text },
        }),
      ),
    onSuccess: async (changed) => {
      queryClient.setQueryData(modelVersion(name, number).queryKey, changed);
      onClose();
    },
  });
  return (
    <FormDialog
      title={t("models.notesOf", { version: number })}
      size="lg"
      pending={save.isPending}
      error={save.error}
      testId="notes-form"
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <Textarea
        label={t("models.markdown")}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        autosize
        minRows={6}
        maxRows={20}
        maxLength={MAX_TEXT}
        data-autofocus
      />
    </FormDialog>
  );
}
