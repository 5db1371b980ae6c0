import { IconCheck } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import css from "./cluster.module.css";

export interface GuidedStep {
  key: string;
  title: string;
  done: boolean;
  body: ReactNode;
}

/** Numbered steps, ticked off as they are done. */
export function Steps({ steps }: { steps: readonly GuidedStep[] }) {
  const { t } = useTranslation();
  return (
    <ol className={css["steps"]}>
      {steps.map((step, i) => (
        <li key={step.key} data-testid={`step-${step.key}`} data-done={step.done || undefined}>
          <span className={css["tick"]} data-done={step.done || undefined}>
            {step.done ? <IconCheck size={12} aria-label={t("first.done")} /> : i + 1}
          </span>
          <div>
            <h3>{step.title}</h3>
            {step.body}
          </div>
        </li>
      ))}
    </ol>
  );
}
