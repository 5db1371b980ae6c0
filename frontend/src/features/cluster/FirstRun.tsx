import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type Experiment, me } from "../../api/queries";
import { LoadDemo } from "../../common/demo/DemoData";
import { RunExample } from "../../common/demo/RunExample";
import { Code, Section } from "../../components/basics";
import { ExperimentLink } from "../../components/ExperimentLink";
import layout from "../../components/layout.module.css";
import { LinkButton } from "../../components/LinkButton";
import { SubmitLink } from "../../components/SubmitLink";
import { Steps } from "./Steps";

/** Experiments with such ids are the first of an installation; the demo has three. */
const FIRST_IDS = 3;

/** Whether nothing was trained here so far: `latest` is missing, or one of the first and without a metric or an end. */
export const isFirst = (latest: Experiment | undefined): boolean =>
  latest === undefined || (latest.id <= FIRST_IDS && latest.headline === null && latest.ended_at === null);

function AddNode() {
  const { t } = useTranslation();
  const isAdmin = useQuery(me).data?.role === "admin";
  return (
    <>
      <p className={`dim ${layout["text"]} ${layout["belowS"]}`}>{t("first.nodeHint")}</p>
      {isAdmin ? (
        <LinkButton to="/nodes/add" variant="default">
          {t("first.join")}
        </LinkButton>
      ) : (
        <p className={layout["text"]}>{t("first.askAdmin")}</p>
      )}
    </>
  );
}

function SubmitOne() {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  return (
    <>
      <p className={`dim ${layout["text"]} ${layout["belowS"]}`}>{t("first.submitHint")}</p>
      <div className={`${layout["stack"]} ${layout["atStart"]}`}>
        <div className={layout["buttons"]}>
          {user?.role === "viewer" ? null : <RunExample />}
          <SubmitLink example={t("first.example")} variant="default" />
          <LoadDemo />
        </div>
        <Code text={"muster submit examples/digits-ddp/experiment.yaml"} wrap />
      </div>
    </>
  );
}

/** The first minutes: what to do next, ticked off live. Goes when the first metric is there. */
export function FirstRun({ hasNode, latest }: { hasNode: boolean; latest: Experiment | undefined }) {
  const { t } = useTranslation();
  const steps = [
    { key: "node", done: hasNode, body: hasNode ? null : <AddNode /> },
    { key: "submit", done: latest !== undefined, body: latest ? null : <SubmitOne /> },
    { key: "watch", done: false, body: latest ? <ExperimentLink item={latest} /> : null },
  ] as const;
  return (
    <Section
      title={t("first.title")}
      note={
        <Link to="/docs/$" params={{ _splat: "guides/dashboard" }}>
          {t("first.tour")}
        </Link>
      }
      testId="first-run"
    >
      <Steps steps={steps.map((step) => ({ ...step, title: t(`first.${step.key}`) }))} />
    </Section>
  );
}
