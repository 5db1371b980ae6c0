import { useQuery } from "@tanstack/react-query";
import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";

import { trialEvaluations, type TrialDetail } from "../../api/queries";
import type { components } from "../../api/schema.gen";
import { Empty, Section, Stats } from "../../components/basics";
import { DataTable } from "../../components/DataTable";
import { QueryView } from "../../components/QueryView";
import * as format from "../../lib/format";
import css from "./trials.module.css";

type Judged = components["schemas"]["EvaluationOut"];
type Score = components["schemas"]["ClassScoreOut"];

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
          items={Object.entries(item.metrics).map(([name, value]) => ({
            testId: `evaluation-${name}`,
            label: name,
            value: format.num(value),
            note: "",
          }))}
        />
      </Section>
      {item.classes.length > 0 ? (
        <>
          <Section title={t("evaluation.confusion")} note={t("evaluation.confusionNote")}>
            <Confusion item={item} />
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
    <DataTable
      rows={scores}
      rowKey={(score) => scores.indexOf(score)}
      label={t("evaluation.classes")}
      testId="class-scores"
      columns={[
        { id: "class", header: t("evaluation.class"), lead: true, cell: (score) => <b>{score.name}</b> },
        {
          id: "precision",
          header: t("evaluation.precision"),
          align: "right",
          cell: (score) => <span title={t("evaluation.precisionHint")}>{share(score.precision)}</span>,
        },
        {
          id: "recall",
          header: t("evaluation.recall"),
          align: "right",
          cell: (score) => <span title={t("evaluation.recallHint")}>{share(score.recall)}</span>,
        },
        { id: "f1", header: t("evaluation.f1"), align: "right", cell: (score) => share(score.f1) },
        {
          id: "samples",
          header: t("evaluation.samples"),
          align: "right",
          cell: (score) => format.count(score.num_samples),
        },
        {
          id: "predicted",
          header: t("evaluation.predicted"),
          align: "right",
          cell: (score) => format.count(score.num_predicted),
        },
      ]}
    />
  );
}

/** A heat map whose cells say their counts; it scrolls in its own box when there are many classes. */
function Confusion({ item }: { item: Judged }) {
  const { t } = useTranslation();
  const names = item.classes.map((score) => score.name);
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["matrix"]} tabIndex={0} role="group" aria-label={t("evaluation.confusion")}>
      <table className={css["confusion"]} data-testid="confusion">
        <thead>
          <tr>
            <th scope="col">{t("evaluation.true")}</th>
            {names.map((name, to) => (
              <th key={to} scope="col" title={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {item.confusion.map((row, from) => {
            const samples = item.classes[from]?.num_samples ?? 0;
            return (
              <tr key={from}>
                <th scope="row" title={names[from]}>
                  {names[from]}
                </th>
                {row.map((count, to) => (
                  <td
                    key={to}
                    data-wrong={from === to ? undefined : true}
                    data-none={count === 0 ? true : undefined}
                    style={{ "--share": samples > 0 ? count / samples : 0 } as CSSProperties}
                    title={t("evaluation.cell", { count, samples, from: names[from] ?? "", to: names[to] ?? "" })}
                  >
                    {format.count(count)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
