import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";
import { useTranslation } from "react-i18next";

import { experiment, node, report, trial } from "../api/queries";
import { isSingle } from "../lib/catalog";
import { rememberPlace } from "../lib/recentPlaces";
import { lastView, rememberView } from "./lastViews";
import { scrollKey } from "./scrolling";
import css from "./shell.module.css";

/** To a page as it was left: with its filters, and scrolled to where it was. */
function Back({ to, children }: { to: string; children: ReactNode }) {
  const view = lastView(to);
  return (
    <Link to={to} search={(view?.search ?? {}) as never} state={{ scrollKey: view?.scrollKey }}>
      {children}
    </Link>
  );
}

/** The title of a page of the documentation comes with its code. */
function useDocCrumb(path: string): string | undefined {
  const { i18n } = useTranslation();
  const docs = useQuery({
    queryKey: ["docs"],
    queryFn: () => import("../common/docs/docs").then(({ DOCS, titleOf }) => ({ DOCS, titleOf })),
    enabled: path !== "",
    staleTime: Infinity,
  }).data;
  const info = docs?.DOCS.find((page) => page.slug === path);
  return info && docs?.titleOf(info, i18n.language);
}

/** Where this page stands. Names come from queries that the page itself reads. */
export function Crumbs() {
  const { t } = useTranslation();
  const location = useLocation();
  const { pathname, search } = location;
  const [, section = "", id = "", , below = ""] = pathname.split("/");
  const docTitle = useDocCrumb(section === "docs" ? pathname.slice("/docs/".length) : "");
  const number = Number(id);
  const isId = Number.isInteger(number) && number > 0;
  const trialQuery = useQuery({ ...trial(number), enabled: section === "trials" && isId });
  const trialData = trialQuery.data;
  const experimentData = useQuery({ ...experiment(number), enabled: section === "experiments" && isId }).data;
  const nodeData = useQuery({ ...node(id), enabled: section === "nodes" && id !== "" && id !== "add" }).data;
  const reportData = useQuery({ ...report(number), enabled: section === "reports" && isId }).data;

  let crumbs: { label: string; to?: string }[];
  if (section === "trials") {
    crumbs = [
      { label: t("nav.experiments"), to: "/experiments" },
      ...(trialData ? [{ label: trialData.experiment_name, to: `/experiments/${trialData.experiment_id}` }] : []),
      // The only trial of an experiment is the experiment itself.
      ...(trialData && isSingle(trialData)
        ? []
        : [{ label: trialQuery.isError && !trialData ? `#${id}` : t("nav.trialNo", { no: trialData?.no ?? "…" }) }]),
    ];
  } else if (section === "experiments") {
    crumbs = [{ label: t("nav.experiments"), to: "/experiments" }];
    if (id) crumbs.push({ label: experimentData?.name ?? `#${id}` });
  } else if (section === "nodes") {
    crumbs = [{ label: t("nav.nodes"), to: "/nodes" }];
    if (id) crumbs.push({ label: id === "add" ? t("nodes.join") : (nodeData?.name ?? id) });
  } else if (section === "models") {
    crumbs = [{ label: t("nav.models"), to: "/models" }];
    if (id) crumbs.push({ label: id, to: `/models/${id}` });
    if (below) crumbs.push({ label: t("nav.modelVersion", { version: below }) });
  } else if (section === "deployments") {
    crumbs = [{ label: t("nav.deployments"), to: "/deployments" }];
    if (id) crumbs.push({ label: id });
  } else if (section === "preflights") {
    crumbs = [{ label: t("nav.nodes"), to: "/nodes" }, { label: t("nav.preflightOf", { id }) }];
  } else if (section === "docs") {
    crumbs = [{ label: t("nav.docs"), to: "/docs/contents" }];
    if (docTitle) crumbs.push({ label: docTitle });
  } else if (section === "reports") {
    crumbs = [{ label: t("nav.reports"), to: "/reports" }];
    if (id) crumbs.push({ label: reportData?.title ?? `#${id}` });
  } else if (section === "schedules") {
    crumbs = [{ label: t("nav.experiments"), to: "/experiments" }, { label: t("nav.schedules") }];
  } else if (section === "sessions") {
    crumbs = [{ label: t("nav.experiments"), to: "/experiments" }, { label: t("nav.sessions") }];
  } else if (section === "device") {
    crumbs = [{ label: t("auth.device") }];
  } else if (
    section === "queue" ||
    section === "goodput" ||
    section === "logs" ||
    section === "checkpoints" ||
    section === "submit" ||
    section === "settings" ||
    section === "compare"
  ) {
    crumbs = [{ label: t(`nav.${section}`) }];
  } else {
    crumbs = [{ label: t(section === "" ? "nav.overview" : "error.notFound") }];
  }
  const last = crumbs.at(-1)?.label ?? "";
  const address = section === "docs" ? pathname : `/${section}/${id}`;
  const isKnown = Boolean(trialData ?? experimentData ?? reportData ?? nodeData ?? docTitle);
  const place =
    crumbs.length > 2
      ? crumbs
          .slice(1)
          .map(({ label }) => label)
          .join(" · ")
      : last;
  useEffect(() => {
    if (isKnown) rememberPlace({ to: address, label: place });
  }, [isKnown, address, place]);
  const key = scrollKey(location);
  useEffect(() => rememberView(pathname, { search, scrollKey: key }), [pathname, search, key]);
  return (
    <nav className={css["crumbs"]} aria-label={t("nav.crumbs")}>
      <title>{`${last} · Muster`}</title>
      <ol>
        {crumbs.map((crumb, i) => (
          <li key={crumb.label} aria-current={i === crumbs.length - 1 ? "page" : undefined}>
            {crumb.to && i < crumbs.length - 1 ? <Back to={crumb.to}>{crumb.label}</Back> : crumb.label}
          </li>
        ))}
      </ol>
    </nav>
  );
}
