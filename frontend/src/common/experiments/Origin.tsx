import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { ExperimentDetail } from "../../api/queries";
import * as format from "../../lib/format";

/** Where it comes from, in one line for the head of a page. */
export function Origin({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const parent = data.parent;
  return (
    <>
      {parent ? (
        <span data-testid="origin">
          {t("lineage.from")}{" "}
          {parent.exists ? (
            <Link to="/experiments/$experimentId" params={{ experimentId: String(parent.experiment_id) }}>
              {parent.experiment_name} #{parent.experiment_id}
            </Link>
          ) : (
            <span>
              {parent.experiment_name} #{parent.experiment_id} ({t("lineage.deleted")})
            </span>
          )}
          {parent.step === null ? null : t("lineage.atStep", { step: format.count(parent.step) })}
        </span>
      ) : null}
      {data.num_continued > 0 ? (
        <span data-testid="continued">{t("lineage.continued", { count: data.num_continued })}</span>
      ) : null}
    </>
  );
}
