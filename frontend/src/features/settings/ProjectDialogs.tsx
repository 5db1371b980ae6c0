import { NumberInput, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { Schemas } from "../../api/client";
import type { Project } from "../../api/queries";
import { FormDialog } from "../../components/dialogs/FormDialog";

const EXAMPLE = "- {metric: train/loss, not_finite: true, action: notify}";

/** What a dialog that changes a project is given. */
export interface ProjectDialogProps {
  project: Project;
  pending: boolean;
  error: Error | null;
  onSave: (body: Partial<Schemas["ProjectPatch"]>) => void;
  onClose: () => void;
}

/** How long the logs and metrics of a project's trials are kept; an empty field leaves it to the server. */
export function ProjectRetention({ project, onSave, ...form }: ProjectDialogProps) {
  const { t } = useTranslation();
  const [logs, setLogs] = useState<number | string>(project.log_retention_days ?? "");
  const [metrics, setMetrics] = useState<number | string>(project.metric_retention_days ?? "");
  const days = (label: string, value: number | string, onChange: (value: number | string) => void) => (
    <NumberInput
      label={label}
      placeholder={t("projects.asServer")}
      value={value}
      onChange={onChange}
      min={1}
      max={36_500}
      allowDecimal={false}
      clampBehavior="strict"
      w={260}
    />
  );
  return (
    <FormDialog
      {...form}
      title={t("projects.retentionOf", { name: project.name })}
      ready
      testId="project-retention-form"
      onSubmit={() =>
        onSave({ log_retention_days: Number(logs) || null, metric_retention_days: Number(metrics) || null })
      }
    >
      <div className="dim">{t("projects.retentionHint")}</div>
      {days(t("retention.askLogs"), logs, setLogs)}
      {days(t("retention.askMetrics"), metrics, setMetrics)}
    </FormDialog>
  );
}

/** The guards of what is submitted to a project, as YAML. */
export function ProjectGuards({ project, onSave, ...form }: ProjectDialogProps) {
  const { t } = useTranslation();
  const [guards, setGuards] = useState(project.guards);
  return (
    <FormDialog
      {...form}
      title={t("projects.guardsOf", { name: project.name })}
      ready
      testId="project-guards-form"
      onSubmit={() => onSave({ guards })}
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
