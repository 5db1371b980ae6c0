import { Button, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { type ExperimentDetail, me } from "../../api/queries";
import { Section } from "../../components/basics";
import { LeaveQuestion } from "../../components/dialogs/LeaveQuestion";
import layout from "../../components/layout.module.css";
import { Markdown } from "../../components/text/Markdown";
import { ErrorNotice } from "../../components/QueryView";
import { mayChange } from "../../lib/access";
import css from "./notes.module.css";

/** A field for notes with what they will look like beside it, or below it where it is narrow. */
export function NotesField({
  value,
  onChange,
  label,
  labelShown = false,
  autoFocus = false,
}: {
  value: string;
  onChange: (text: string) => void;
  label: string;
  labelShown?: boolean;
  /** Whether it gets the focus where no dialog gives it. */
  autoFocus?: boolean;
}) {
  const { t } = useTranslation();
  return (
    <div className={css["field"]}>
      <Textarea
        label={labelShown ? label : undefined}
        aria-label={labelShown ? undefined : label}
        description={t("notes.markdown")}
        autosize
        minRows={4}
        maxRows={16}
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
        autoFocus={autoFocus}
      />
      {value.trim() ? (
        <section className={css["preview"]} aria-label={t("notes.preview")} tabIndex={0} data-testid="notes-preview">
          <div className={css["previewHead"]}>{t("notes.preview")}</div>
          <Markdown text={value} />
        </section>
      ) : null}
    </div>
  );
}

/** The notes of an experiment, and the form that changes them. */
export function Notes({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const queryClient = useQueryClient();
  const [draft, setDraft] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: (notes: string) =>
      unwrap(
        client.PATCH("/api/v1/experiments/{experiment_id}", {
          params: { path: { experiment_id: data.id } },
          body: { notes },
        }),
      ),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["experiment", data.id] });
      setDraft(null);
    },
  });
  const edit = !mayChange(user, data.owner) ? null : (
    <Button variant="subtle" size="compact-xs" onClick={() => setDraft(data.notes)}>
      {t("common.edit")}
    </Button>
  );
  return (
    <Section title={t("experiment.notes")} note={draft === null ? edit : null}>
      {draft === null ? (
        data.notes ? (
          <Markdown text={data.notes} />
        ) : (
          <div className="dim">{t("experiment.noNotes")}</div>
        )
      ) : (
        <>
          <NotesField label={t("experiment.notes")} value={draft} onChange={setDraft} autoFocus />
          {save.error ? <ErrorNotice error={save.error} /> : null}
          <LeaveQuestion isChanged={draft !== data.notes} />
          <div className={`${layout["buttons"]} ${layout["aboveM"]}`}>
            <Button loading={save.isPending} onClick={() => save.mutate(draft)}>
              {t("common.save")}
            </Button>
            <Button variant="default" onClick={() => setDraft(null)}>
              {t("common.cancel")}
            </Button>
          </div>
        </>
      )}
    </Section>
  );
}
