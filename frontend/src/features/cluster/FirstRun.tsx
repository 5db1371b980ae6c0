import { IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { me } from "../../api/queries";
import { Code, Section } from "../../components/basics";
import { LinkButton } from "../../components/LinkButton";
import { SubmitLink } from "../../components/SubmitLink";
import css from "./cluster.module.css";
import layout from "../../components/layout.module.css";

/** The first minutes: what to do next, ticked off live. */
export function FirstRun({ hasNode, hasExperiment }: { hasNode: boolean; hasExperiment: boolean }) {
  const { t } = useTranslation();
  const isAdmin = useQuery(me).data?.role === "admin";
  const steps = [
    { key: "server", done: true, body: null },
    {
      key: "node",
      done: hasNode,
      body: hasNode ? null : (
        <>
          <p className={`dim ${layout["text"]} ${layout["belowS"]}`}>{t("first.nodeHint")}</p>
          {isAdmin ? (
            <LinkButton to="/settings" search={{ tab: "join" }} variant="default">
              {t("first.join")}
            </LinkButton>
          ) : (
            <p className={layout["text"]}>{t("first.askAdmin")}</p>
          )}
        </>
      ),
    },
    {
      key: "submit",
      done: hasExperiment,
      body: hasExperiment ? null : (
        <>
          <p className={`dim ${layout["text"]} ${layout["belowS"]}`}>{t("first.submitHint")}</p>
          <div className={`${layout["stack"]} ${layout["atStart"]}`}>
            <SubmitLink example={t("first.example")} />
            <Code text={"muster submit examples/digits-ddp/experiment.yaml"} wrap />
          </div>
        </>
      ),
    },
    { key: "watch", done: false, body: null },
  ] as const;
  return (
    <Section title={t("first.title")} testId="first-run">
      <ol className={css["steps"]}>
        {steps.map((step, i) => (
          <li key={step.key}>
            <span className={css["tick"]} data-done={step.done || undefined}>
              {step.done ? <IconCheck size={12} aria-label={t("first.done")} /> : i + 1}
            </span>
            <div>
              <h3>{t(`first.${step.key}`)}</h3>
              {step.body}
            </div>
          </li>
        ))}
      </ol>
    </Section>
  );
}
