import { Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { Project } from "../../api/queries";
import { FormDialog } from "../../components/dialogs/FormDialog";

const EXAMPLE = "- {metric: train/loss, not_finite: true, action: notify}";

/** The guards of what is submitted to a project, as YAML. */
export function ProjectGuards({
  project,
  pending,
  error,
  onSave,
  onClose,
}: {
  project: Project;
  pending: boolean;
  error: Error | null;
  onSave: (body: { guards: string }) => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const [guards, setGuards] = useState(project.guards);
  return (
    <FormDialog
      title={t("projects.guardsOf", { name: project.name })}
      ready
      pending={pending}
      error={error}
      testId="project-guards-form"
      onSubmit={() => onSave({ guards })}
      onClose={onClose}
    >
      <div className="dim">{t("projects.guardsHint")}</div>
      <Textarea
        label={t("projects.guards")}
        placeholder={EXAMPLE}
        value={guards}
        onChange={(e) => setGuards(e.currentTarget.value)}
        classNames={{ input: "mono" }}
        spellCheck={false}
        rows={8}
        maxLength={65_536}
      />
    </FormDialog>
  );
}
