import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { trialEvaluations, type TrialDetail } from "../../../api/queries";
import type { components } from "../../../api/schema.gen";
import { ConfusionMatrix } from "../../../common/media/ConfusionMatrix";
import { Empty, Section, Stats } from "../../../components/basics";
import { DataTable, lead, numeric } from "../../../components/tables/DataTable";
import { QueryView } from "../../../components/QueryView";
import { estimates, rangeText } from "../../../lib/estimates";
import * as format from "../../../lib/format";

type Judged = components["schemas"]["EvaluationOut"];
type Score = components["schemas"]["ClassScore"];

/** What the model was found to be worth: its metrics, the scores of each class, and which class was taken for which. */
export function Evaluation({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const query = useQuery(trialEvaluations(trial.id));
  return (
    <QueryView query={query}>
      {(items) =>
        items.length === 0 ? (
          <Empty title={t("evaluation.none")}>{t("evaluation.noneHint")}</Empty>
        ) : (
          items.map((item) => <One key={item.name} item={item} />)
        )
      }
    </QueryView>
  );
}

function One({ item }: { item: Judged }) {
  const { t } = useTranslation();
  const samples = item.classes.reduce((sum, score) => sum + score.num_samples, 0);
  const note =
    item.classes.length > 0
      ? t("evaluation.of", { step: format.count(item.step), count: samples })
      : t("evaluation.step", { step: format.count(item.step) });
  return (
    <>
      <Section title={item.name} note={note} testId="evaluation">
        <Stats
          items={estimates(item.metrics).map((each) => ({
            testId: `evaluation-${each.name}`,
            label: each.name,
            value: format.num(each.value),
            note: rangeText(each),
          }))}
        />
      </Section>
      {item.classes.length > 0 ? (
        <>
          <Section
            guide="guides/dashboard#evaluation"
            title={t("evaluation.confusion")}
            note={t("evaluation.confusionNote")}
          >
            <ConfusionMatrix names={item.classes.map((score) => score.name)} counts={item.confusion} />
          </Section>
          <Section title={t("evaluation.classes")}>
            <Scores scores={item.classes} />
          </Section>
        </>
      ) : null}
    </>
  );
}

function Scores({ scores }: { scores: Score[] }) {
  const { t } = useTranslation();
  const share = (value: number | null) => (value === null ? format.MISSING : format.pct(value));
  return (
    <DataTable<Score>
      rows={scores}
      rowKey={(score) => scores.indexOf(score)}
      label={t("evaluation.classes")}
      testId="class-scores"
      columns={[
        lead("class", t("evaluation.class"), (score) => <b>{score.name}</b>),
        numeric("precision", t("evaluation.precision"), (score) => (
          <span title={t("evaluation.precisionHint")}>{share(score.precision)}</span>
        )),
        numeric("recall", t("evaluation.recall"), (score) => (
          <span title={t("evaluation.recallHint")}>{share(score.recall)}</span>
        )),
        numeric("f1", t("evaluation.f1"), (score) => share(score.f1)),
        numeric("samples", t("evaluation.samples"), (score) => format.count(score.num_samples)),
        numeric("predicted", t("evaluation.predicted"), (score) => format.count(score.num_predicted)),
      ]}
    />
  );
}
