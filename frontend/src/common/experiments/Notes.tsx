import { Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import layout from "../../components/layout.module.css";
import { Prose } from "../../components/Prose";
import css from "./notes.module.css";

/** Notes as Markdown; as they were written until the code for that is here. */
export function NotesText({ text }: { text: string }) {
  const markdown = useQuery({
    queryKey: ["code", "markdown"],
    queryFn: () => import("../../lib/markdown").then(({ notesHtml }) => ({ notesHtml })),
    staleTime: Infinity,
    gcTime: Infinity,
  }).data;
  if (!markdown) return <div className={layout["asWritten"]}>{text}</div>;
  return <Prose html={markdown.notesHtml(text)} />;
}

/** A field for notes with what they will look like beside it, or below it where it is narrow. */
export function NotesField({
  value,
  onChange,
  label,
  labelShown = false,
}: {
  value: string;
  onChange: (text: string) => void;
  label: string;
  labelShown?: boolean;
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
        data-autofocus
      />
      {value.trim() ? (
        <section className={css["preview"]} aria-label={t("notes.preview")} tabIndex={0} data-testid="notes-preview">
          <div className={css["previewHead"]}>{t("notes.preview")}</div>
          <NotesText text={value} />
        </section>
      ) : null}
    </div>
  );
}
