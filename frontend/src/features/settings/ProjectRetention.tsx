import { NumberInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { Schemas } from "../../api/client";
import type { Project } from "../../api/queries";
import { FormDialog } from "../../components/dialogs/FormDialog";

/** How long the logs and metrics of a project's trials are kept; an empty field leaves it to the server. */
export function ProjectRetention({
  project,
  pending,
  error,
  onSave,
  onClose,
}: {
  project: Project;
  pending: boolean;
  error: Error | null;
  onSave: (body: Pick<Schemas["ProjectPatch"], "log_retention_days" | "metric_retention_days">) => void;
  onClose: () => void;
}) {
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
      title={t("projects.retentionOf", { name: project.name })}
      ready
      pending={pending}
      error={error}
      testId="project-retention-form"
      onSubmit={() =>
        onSave({ log_retention_days: Number(logs) || null, metric_retention_days: Number(metrics) || null })
      }
      onClose={onClose}
    >
      <div className="dim">{t("projects.retentionHint")}</div>
      {days(t("retention.askLogs"), logs, setLogs)}
      {days(t("retention.askMetrics"), metrics, setMetrics)}
    </FormDialog>
  );
}
