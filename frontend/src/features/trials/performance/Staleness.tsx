import { useTranslation } from "react-i18next";

import type { TrialDetail } from "../../../api/queries";
import { Section } from "../../../components/basics";
import { column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
import * as format from "../../../lib/format";
import { stalenessOf } from "./staleness";
import css from "../trials.module.css";

/** A histogram of how late gradients came, of strategies that do not wait for all workers. */
export function Staleness({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const bins = stalenessOf(trial.summary);
  if (bins.length === 0) return null;
  const most = Math.max(...bins.map((bin) => bin.share));
  const all = bins.reduce((sum, bin) => sum + bin.count, 0);
  return (
    <Section
      guide="concepts/strategies#asynchronous-updates-and-the-optimizer"
      title={t("perf.staleness")}
      note={t("perf.stalenessNote", { total: format.count(all) })}
      testId="staleness"
    >
      <DataTable<(typeof bins)[number]>
        rows={bins}
        rowKey={(bin) => bin.from}
        label={t("perf.staleness")}
        columns={[
          lead("late", t("perf.late"), (bin) => <b>{bin.label}</b>),
          numeric("count", t("perf.gradients"), (bin) => format.count(bin.count)),
          column("share", t("perf.share"), (bin) => (
            <>
              <span
                className={css["cellbar"]}
                style={{ width: `${(120 * bin.share) / (most || 1)}px`, background: "var(--series-0)" }}
              />
              {format.pct(bin.share)}
            </>
          )),
        ]}
      />
    </Section>
  );
}
