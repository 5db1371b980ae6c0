import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, type TrialDetail, trialReproduction } from "../../api/queries";
import { KeyValues, Section, Skeleton } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { Settings } from "../../common/experiments/Settings";
import * as format from "../../lib/format";
import { isTerminal } from "../../lib/states";
import { Reproduce } from "./Reproduce";
import { TrackedRuns } from "./TrackedRuns";

/** What a trial was told, and what it takes to run it again. `experiment`: undefined until it is loaded. */
export function Config({ trial: data, experiment }: { trial: TrialDetail; experiment: ExperimentDetail | undefined }) {
  const { t } = useTranslation();
  const reproduction = useQuery(trialReproduction(data.id, data.attempt_no, !isTerminal(data.state)));
  const hparams = Object.entries(data.hparams);
  const shown = (value: unknown) => (typeof value === "number" ? format.num(value, 6) : JSON.stringify(value));
  return (
    <>
      {hparams.length > 0 ? (
        <Section title={t("trial.hparams")}>
          <KeyValues
            items={hparams.map(([key, value]) => [
              <code key={key} className="mono">
                {key}
              </code>,
              data.hparams_before && shown(data.hparams_before[key]) !== shown(value)
                ? t("trial.guardedFrom", { value: shown(value), before: shown(data.hparams_before[key]) })
                : shown(value),
            ])}
          />
        </Section>
      ) : null}
      <TrackedRuns trial={data} />
      <QueryView query={reproduction}>{(found) => <Reproduce trial={data} found={found} />}</QueryView>
      {experiment ? <Settings experiment={experiment} origins={reproduction.data?.origins ?? {}} /> : <Skeleton />}
    </>
  );
}
