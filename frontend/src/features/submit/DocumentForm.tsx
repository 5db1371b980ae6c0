import { NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { FieldError } from "../../api/client";
import { fieldText } from "../../components/text/Message";
import { type FormField, SCRIPT_FIELDS, TRAINER_FIELDS, writtenValue } from "./formFields";
import { defaultText, descriptionOf, nodeAt, type SchemaNode, valuesAt } from "./schema";
import { hasSection, settingAt, withValue } from "./setting";
import css from "./submit.module.css";

interface Props {
  document: string;
  schema: SchemaNode | undefined;
  errors: readonly FieldError[];
  onChange: (document: string) => void;
}

/** The most used settings of the document: what is changed here stands in its text at once, and the other way round. */
export default function DocumentForm({ document, schema, errors, onChange }: Props) {
  const { t } = useTranslation();
  const isScript = hasSection(document, "entrypoint") && !hasSection(document, "trainer");
  return (
    <fieldset className={css["form"]} aria-label={t("submit.form")} data-testid="document-form">
      {(isScript ? SCRIPT_FIELDS : TRAINER_FIELDS).map((field) => (
        <Field key={field.id} field={field} {...{ document, schema, errors, onChange }} />
      ))}
    </fieldset>
  );
}

function Field({ field, document, schema, errors, onChange }: { field: FormField } & Props) {
  const { t } = useTranslation();
  const written = settingAt(document, field.path);
  // While it is not yet a value of the document, what was typed stays in the field.
  const [draft, setDraft] = useState<string | null>(null);
  const node = schema ? nodeAt(schema, field.path) : null;
  const usual = node ? defaultText(node) : null;
  const error = errors.find(({ path }) => path === field.id);
  const set = (text: string): void => {
    const value = writtenValue(field.kind, text);
    const next = value === null ? null : withValue(document, field.path, value);
    setDraft(next === null ? text : null);
    if (next !== null && next !== document) onChange(next);
  };
  const problem = error ? fieldText(error) : draft === null ? "" : t("submit.notNumber");
  const shared = {
    size: "xs" as const,
    label: t(`submit.fields.${field.id.replace(".", "_") as "name"}`),
    // The list of problems has the words: below the field they would move all others.
    title: problem || (node ? descriptionOf(node) : undefined),
    "aria-description": problem || undefined,
    error: problem !== "",
    disabled: written === null,
    value: draft ?? written ?? "",
    "data-testid": `field-${field.id}`,
  };
  if (field.kind === "choice") {
    const values = schema ? valuesAt(schema, field.path) : [];
    const own = written && !values.includes(written) ? [written] : [];
    return (
      <NativeSelect
        {...shared}
        data={[{ value: "", label: usual === null ? "–" : `(${usual})` }, ...values, ...own]}
        onChange={(event) => set(event.currentTarget.value)}
      />
    );
  }
  return (
    <TextInput
      {...shared}
      placeholder={written === null ? t("submit.inText") : (usual ?? "")}
      inputMode={field.kind === "number" ? "decimal" : undefined}
      onChange={(event) => set(event.currentTarget.value)}
      onBlur={() => setDraft(null)}
    />
  );
}
