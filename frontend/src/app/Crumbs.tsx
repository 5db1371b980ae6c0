import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { experiment, node, trial } from "../api/queries";
import css from "./shell.module.css";

/** Where this page stands. Names come from queries that the page itself reads. */
export function Crumbs() {
  const { t } = useTranslation();
  const [, section = "", id = ""] = useLocation().pathname.split("/");
  const number = Number(id);
  const isId = Number.isInteger(number) && number > 0;
  const trialQuery = useQuery({ ...trial(number), enabled: section === "trials" && isId });
  const trialData = trialQuery.data;
  const experimentData = useQuery({ ...experiment(number), enabled: section === "experiments" && isId }).data;
  const nodeData = useQuery({ ...node(id), enabled: section === "nodes" && id !== "" }).data;

  let crumbs: { label: string; to?: string }[];
  if (section === "trials") {
    crumbs = [
      { label: t("nav.experiments"), to: "/experiments" },
      ...(trialData ? [{ label: trialData.experiment_name, to: `/experiments/${trialData.experiment_id}` }] : []),
      // The only trial of an experiment is the experiment itself.
      ...(trialData?.searcher === "single"
        ? []
        : [{ label: trialQuery.isError && !trialData ? `#${id}` : t("nav.trialNo", { no: trialData?.no ?? "…" }) }]),
    ];
  } else if (section === "experiments") {
    crumbs = [{ label: t("nav.experiments"), to: "/experiments" }];
    if (id) crumbs.push({ label: experimentData?.name ?? `#${id}` });
  } else if (section === "nodes") {
    crumbs = [{ label: t("nav.nodes"), to: "/nodes" }];
    if (id) crumbs.push({ label: nodeData?.name ?? id });
  } else if (section === "preflights") {
    crumbs = [{ label: t("nav.nodes"), to: "/nodes" }, { label: t("nav.preflightOf", { id }) }];
  } else if (
    section === "queue" ||
    section === "logs" ||
    section === "checkpoints" ||
    section === "submit" ||
    section === "settings" ||
    section === "compare"
  ) {
    crumbs = [{ label: t(`nav.${section}`) }];
  } else {
    crumbs = [{ label: t("nav.overview") }];
  }
  const last = crumbs.at(-1)?.label ?? "";
  return (
    <nav className={css["crumbs"]} aria-label={t("nav.crumbs")}>
      <title>{`${last} · Muster`}</title>
      <ol>
        {crumbs.map((crumb, i) => (
          <li key={crumb.label} aria-current={i === crumbs.length - 1 ? "page" : undefined}>
            {crumb.to && i < crumbs.length - 1 ? <Link to={crumb.to}>{crumb.label}</Link> : crumb.label}
          </li>
        ))}
      </ol>
    </nav>
  );
}
