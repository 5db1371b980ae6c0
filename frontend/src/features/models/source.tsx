import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import type { ModelVersionItem } from "../../api/queries";
import * as format from "../../lib/format";

/** What a version was made of, as a link to the trial. */
export function useSource(): (version: ModelVersionItem) => ReactNode {
  const { t } = useTranslation();
  return (version) => {
    if (version.source === "upload" || version.trial_id === null) return t("models.fromUpload");
    const words = {
      checkpoint: "models.fromCheckpoint",
      outputs: "models.fromOutputs",
      mlflow: "models.fromMlflow",
    } as const;
    return (
      <Link
        to="/trials/$trialId"
        params={{ trialId: String(version.trial_id) }}
        search={{
          tab: version.source === "outputs" ? "outputs" : version.source === "mlflow" ? undefined : "checkpoints",
        }}
      >
        {t(words[version.source], {
          step: version.step === null ? format.MISSING : format.count(version.step),
          experiment: version.experiment_id,
        })}
      </Link>
    );
  };
}
