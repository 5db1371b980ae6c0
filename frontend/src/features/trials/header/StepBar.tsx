import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import * as format from "../../../lib/format";
import { PART_COLORS } from "../../../lib/series/perf";
import { type Measured, stepShares } from "./figures";
import css from "../trials.module.css";

/** Where the time of a step goes, at a glance; a click shows it in full. */
export function StepBar({ figures }: { figures: Measured["figures"] }) {
  const { t } = useTranslation();
  const shares = stepShares(figures);
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
