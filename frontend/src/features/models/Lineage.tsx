import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import type { ModelVersion } from "../../api/queries";
import { Code } from "../../components/basics";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";
import css from "./models.module.css";

interface Facts {
  experiment_id?: number;
  experiment_name?: string;
  trial_id?: number;
  trial_no?: number;
  attempt_no?: number;
  code_sha256?: string;
  git?: { commit?: string; branch?: string; is_dirty?: boolean };
  data?: { name: string; digest?: string; source?: string }[];
  parent?: { experiment_id: number; experiment_name: string; step?: number };
  slot_hours?: number;
}

/** From data to this version: each step of the way, with a link to it. */
export function Lineage({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  const facts = version.lineage as Facts;
  const steps: { label: string; value: ReactNode; note?: string }[] = [
    ...(facts.data ?? []).map((data) => ({
      label: t("models.data"),
      value: data.name,
      note: [data.digest, data.source].filter(Boolean).join(" · "),
    })),
    ...code(facts, t("models.code"), (git) => [
      t("models.commit", { commit: git.commit?.slice(0, 10) }),
      git.is_dirty ? t("models.dirty") : "",
    ]),
    ...(facts.parent
      ? [
          {
            label: t("models.parent"),
            value: <ToExperiment id={facts.parent.experiment_id} name={facts.parent.experiment_name} />,
            note: facts.parent.step === undefined ? "" : t("models.step", { step: format.count(facts.parent.step) }),
          },
        ]
      : []),
    ...(facts.experiment_id
      ? [
          {
            label: t("models.experiment"),
            value: <ToExperiment id={facts.experiment_id} name={facts.experiment_name ?? ""} />,
          },
        ]
      : []),
    ...(facts.trial_id
      ? [
          {
            label: t("models.trial"),
            ...trial(facts, version, t("models.slotHours", { hours: format.num(facts.slot_hours ?? 0, 3) })),
          },
        ]
      : []),
    ...(version.checkpoint_id === null
      ? []
      : [
          {
            label: t("models.checkpoint", { id: version.checkpoint_id }),
            value: t("models.step", { step: format.count(version.step ?? 0) }),
          },
        ]),
    { label: t("models.version"), value: <b>{`${version.model}:${version.number}`}</b> },
  ];
  return (
    <>
      {facts.experiment_id ? null : <p className="dim">{t("models.lineageNone")}</p>}
      <ol className={css["chain"]}>
        {steps.map((step, position) => (
          // oxlint-disable-next-line react/no-array-index-key -- the steps of one version never change
          <li key={position}>
            <span className="dim">{step.label}</span>
            <span className={layout["anywhere"]}>{step.value}</span>
            {step.note ? <span className={`dim ${layout["anywhere"]} ${layout["small"]}`}>{step.note}</span> : null}
          </li>
        ))}
      </ol>
      {version.digest ? (
        <p className={`dim ${layout["aboveS"]}`}>
          {t("models.contentDigest")} <Code text={version.digest} />
        </p>
      ) : null}
    </>
  );
}

function code(facts: Facts, label: string, words: (git: NonNullable<Facts["git"]>) => string[]) {
  if (!facts.git && !facts.code_sha256) return [];
  const note = facts.git ? words(facts.git).filter(Boolean).join(", ") : "";
  const digest = facts.code_sha256 ? `sha256:${facts.code_sha256.slice(0, 12)}…` : (facts.git?.branch ?? "");
  return [{ label, value: <span className="mono">{digest}</span>, note }];
}

function trial(facts: Facts, version: ModelVersion, hours: string) {
  const tab = version.source === "outputs" ? "outputs" : version.source === "mlflow" ? undefined : "checkpoints";
  const value = (
    <Link to="/trials/$trialId" params={{ trialId: String(facts.trial_id) }} search={{ tab }}>
      {`${facts.experiment_id}.${facts.trial_no}`}
    </Link>
  );
  return { value, note: facts.slot_hours === undefined ? "" : hours };
}

function ToExperiment({ id, name }: { id: number; name: string }) {
  return (
    <Link to="/experiments/$experimentId" params={{ experimentId: String(id) }}>
      {`#${id} ${name}`}
    </Link>
  );
}
