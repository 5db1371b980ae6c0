import { Select } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { ExperimentDetail } from "../../api/queries";
import type { Load, Start } from "../../lib/forking";
import css from "./submit.module.css";
import layout from "../../components/layout.module.css";

/** What the new experiment starts from, and what it takes over beside the document. */
export function ForkBar({
  experiment,
  set,
  start,
  load,
  onLoad,
}: {
  experiment: ExperimentDetail;
  /** An override that the link to this page has added. */
  set: string | undefined;
  start: Start;
  load: Load;
  onLoad: (load: Load) => void;
}) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/submit" });
  const choices = [
    { value: "", label: t("fork.nothing") },
    { value: "latest", label: t("fork.latest") },
    ...(experiment.metric_name ? [{ value: "best", label: t("fork.best") }] : []),
    ...(typeof start === "number" ? [{ value: String(start), label: t("fork.checkpoint", { id: start }) }] : []),
  ];
  return (
    <div className={css["fork"]} data-testid="fork-bar">
      <Select
        label={t("fork.start")}
        value={String(start)}
        data={choices}
        allowDeselect={false}
        w={280}
        onChange={(value) =>
          void navigate({ search: (before) => ({ ...before, start: value || undefined }), replace: true })
        }
      />
      {start === "" ? null : (
        <Select
          label={t("fork.load")}
          value={load}
          allowDeselect={false}
          w={280}
          data={(["all", "weights"] as const).map((value) => ({ value, label: t(`fork.${value}`) }))}
          onChange={(value) => onLoad(value as Load)}
        />
      )}
      {experiment.overrides.length > 0 ? (
        <p className={`${layout["text"]} ${layout["anywhere"]}`}>
          {t("fork.overrides")} <span className="mono">{experiment.overrides.join("  ")}</span>
        </p>
      ) : null}
      {set ? (
        <p className={`${layout["text"]} ${layout["anywhere"]}`} data-testid="fork-set">
          {t("fork.set")} <span className="mono">{set}</span>
        </p>
      ) : null}
    </div>
  );
}
