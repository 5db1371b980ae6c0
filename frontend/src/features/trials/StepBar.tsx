import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { TrialDetail } from "../../api/queries";
import * as format from "../../lib/format";
import { PART_COLORS } from "../../lib/perf";
import { stepShares } from "./recent";
import css from "./trials.module.css";

/** Where the time of a step goes, at a glance; a click shows it in full. */
export function StepBar({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const shares = stepShares(trial.summary);
  if (shares.length === 0) return null;
  const words = shares
    .toSorted((a, b) => b.share - a.share)
    .map(({ part, share }) => `${t(`part.${part}`)} ${format.pct(share)}`)
    .join(", ");
  return (
    <Link
      to="."
      search={{ tab: "performance" } as never}
      className={css["stepBar"]}
      aria-label={t("trial.stat.whereTo", { parts: words })}
      title={words}
      data-testid="step-bar"
    >
      {shares.map(({ part, share }) => (
        <span key={part} style={{ flexGrow: share, background: PART_COLORS[part] }} />
      ))}
    </Link>
  );
}
