/** What the command menu offers: each list with its own source and bound. */
import type { SpotlightActionData, SpotlightActionGroupData } from "@mantine/spotlight";
import {
  IconAdjustmentsHorizontal,
  IconBinaryTree2,
  IconBook2,
  IconBookmark,
  IconBox,
  IconBroadcast,
  IconCalendarTime,
  IconChartDots,
  IconChartLine,
  IconChartPie,
  IconDeviceFloppy,
  IconFileText,
  IconFlask2,
  IconHistory,
  IconKeyboard,
  IconLayoutDashboard,
  IconPlus,
  IconReport,
  IconServer2,
  IconStack2,
  IconTerminal2,
} from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useLocation, useRouter } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { url } from "../../lib/address";
import { client, unwrap } from "../../api/client";
import { useIsThere } from "../../api/parts";
import { experimentColumns, me, nodes, savedViews, wholeTrial } from "../../api/queries";
import { DOCS, docSections, languageOf, titleOf } from "../../common/docs/docs";
import { searchDocs } from "../../common/docs/searchDocs";
import { stateWord } from "../../components/StateBadge";
import { added, readColumns, writeColumns } from "../../features/experiments/list/tableColumns";
import { recentPlaces } from "../../lib/recentPlaces";
import { settingsTabs } from "../../lib/settingsTabs";
import { matching, named } from "./commandFilter";
import { keyMap } from "./keyMap";

const EXPERIMENTS = 8;
const IN_GROUP = 6;
const RECENT = 5;
/** Shorter words are in nearly every section. */
const DOCS_FROM = 2;

type Action = SpotlightActionData & { id: string; label: string; description?: string; keywords?: string };
const icon = (Icon: typeof IconBook2) => <Icon size={16} aria-hidden />;

const useGo = () => {
  const router = useRouter();
  return (href: string) => () => router.history.push(url(href));
};

function usePages(): Action[] {
  const { t } = useTranslation();
  const go = useGo();
  const isThere = useIsThere();
  const role = useQuery(me).data?.role;
  const page = (id: string, label: string, Icon: typeof IconBook2, href: string): Action => ({
    id,
    label,
    leftSection: icon(Icon),
    onClick: go(href),
  });
  return [
    page("overview", t("nav.overview"), IconLayoutDashboard, "/"),
    page("experiments", t("nav.experiments"), IconFlask2, "/experiments"),
    page("compare", t("nav.compare"), IconChartLine, "/compare"),
    ...(role === "viewer" ? [] : [page("submit", t("nav.submit"), IconPlus, "/submit")]),
    page("queue", t("nav.queue"), IconStack2, "/queue"),
    page("reports", t("nav.reports"), IconReport, "/reports"),
    page("schedules", t("nav.schedules"), IconCalendarTime, "/schedules"),
    page("sessions", t("nav.sessions"), IconTerminal2, "/sessions"),
    page("nodes", t("nav.nodes"), IconServer2, "/nodes"),
    page("goodput", t("nav.goodput"), IconChartPie, "/goodput"),
    page("logs", t("nav.logs"), IconFileText, "/logs"),
    page("checkpoints", t("nav.checkpoints"), IconDeviceFloppy, "/checkpoints"),
    page("models", t("nav.models"), IconBox, "/models"),
    page("deployments", t("nav.deployments"), IconBroadcast, "/deployments"),
    page("settings", t("nav.settings"), IconAdjustmentsHorizontal, "/settings"),
    page("docs", t("nav.docs"), IconBook2, "/docs/contents"),
    { id: "keys", label: t("command.keys"), leftSection: icon(IconKeyboard), onClick: () => keyMap.open() },
  ].filter(({ id }) => isThere(id));
}

function useSettings(): Action[] {
  const { t } = useTranslation();
  const go = useGo();
  return settingsTabs(useQuery(me).data?.role).map((tab) => ({
    id: `s-${tab}`,
    label: t(`settings.tab.${tab}`),
    description: t("nav.settings"),
    leftSection: icon(IconAdjustmentsHorizontal),
    onClick: go(`/settings?tab=${tab}`),
  }));
}

/** Experiments by name, and by number; the trial that a query like "4.2" names. */
function useExperiments(query: string, opened: boolean) {
  const { t } = useTranslation();
  const go = useGo();
  const name = named(query);
  const number = typeof name?.experiment === "number" ? name.experiment : null;
  const words = typeof name?.experiment === "string" ? name.experiment : query.trim();
  const found = useQuery({
    queryKey: ["command", words],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/experiments", { params: { query: { q: words || undefined, limit: EXPERIMENTS } }, signal }),
      ),
    enabled: opened,
    placeholderData: keepPreviousData,
  });
  const numbered = useQuery({
    queryKey: ["command", "no", number],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}", { params: { path: { experiment_id: number ?? 0 } }, signal }),
      ),
    enabled: opened && number !== null,
    retry: false,
  }).data;
  const byName = found.isPlaceholderData
    ? matching(
        (found.data?.items ?? []).map((item) => ({ ...item, label: item.name, id: item.id.toString() })),
        words,
        EXPERIMENTS,
      ).map((item) => ({ ...item, id: Number(item.id) }))
    : (found.data?.items ?? []);
  const items = [
    ...(number !== null && numbered ? [numbered] : []),
    ...byName.filter((item) => item.id !== numbered?.id),
  ];
  const ofTrial = name && name.trialNo !== null ? items[0] : undefined;
  const trial = useQuery({
    queryKey: ["command", "trial", ofTrial?.id, name?.trialNo],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/trials", {
          params: { path: { experiment_id: ofTrial?.id ?? 0 }, query: { no: name?.trialNo, limit: 1 } },
          signal,
        }),
      ),
    enabled: opened && ofTrial !== undefined,
  }).data?.items[0];
  const best = items.flatMap((item): Action[] =>
    item.best_trial_id && !item.only_trial_id && name?.trialNo == null
      ? [
          {
            id: `b${item.id}`,
            label: t("command.bestOf", { name: item.name }),
            description: `#${item.id}`,
            leftSection: icon(IconBinaryTree2),
            onClick: go(`/trials/${item.best_trial_id}`),
          },
        ]
      : [],
  );
  return {
    isPending: found.isPending || found.isPlaceholderData,
    experiments: items.slice(0, EXPERIMENTS).map((item) => ({
      id: `e${item.id}`,
      label: item.name,
      description: `#${item.id} · ${stateWord(t, item.state)}`,
      leftSection: icon(IconFlask2),
      onClick: go(item.only_trial_id ? `/trials/${item.only_trial_id}` : `/experiments/${item.id}`),
    })),
    trials: [
      ...(trial && ofTrial
        ? [
            {
              id: `t${trial.id}`,
              label: `${ofTrial.name} · ${t("nav.trialNo", { no: trial.no })}`,
              description: stateWord(t, trial.state),
              leftSection: icon(IconBinaryTree2),
              onClick: go(`/trials/${trial.id}`),
            },
          ]
        : []),
      ...(query.trim() === "" ? [] : best.slice(0, IN_GROUP)),
    ],
  };
}

/** Models by name or description. */
function useModels(query: string, opened: boolean): { isPending: boolean; models: Action[] } {
  const { t } = useTranslation();
  const go = useGo();
  const isThere = useIsThere()("models");
  const words = query.trim();
  const found = useQuery({
    queryKey: ["command", "models", words],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/models", { params: { query: { q: words, limit: IN_GROUP } }, signal })),
    enabled: opened && words !== "" && isThere,
  });
  const models = (words === "" ? [] : (found.data?.items ?? [])).map((item) => ({
    id: `model-${item.id}`,
    label: item.name,
    description: item.latest_version === null ? "" : t("models.versionNo", { version: item.latest_version }),
    leftSection: icon(IconBox),
    onClick: go(`/models/${encodeURIComponent(item.name)}`),
  }));
  return { isPending: found.isLoading, models };
}

/** On a trial's page its own metrics, which it shows alone; elsewhere those of the newest experiments, by which it sorts them. */
function useMetrics(opened: boolean): { isPending: boolean; metrics: Action[] } {
  const { t } = useTranslation();
  const go = useGo();
  const { pathname } = useLocation();
  const trialId = Number(/^\/trials\/(\d+)$/.exec(pathname)?.[1] ?? 0);
  const own = useQuery({ ...wholeTrial(trialId), enabled: opened && trialId > 0 });
  const columns = useQuery({ ...experimentColumns(), enabled: opened && trialId === 0 });
  if (trialId > 0) {
    const metrics = Object.keys(own.data?.summary ?? {}).map((name) => ({
      id: `m-${name}`,
      label: name,
      description: t("command.metricHere"),
      leftSection: icon(IconChartDots),
      onClick: go(`/trials/${trialId}?find=${encodeURIComponent(name)}`),
    }));
    return { isPending: own.isLoading, metrics };
  }
  const prefix = "metric.last.";
  const metrics = (columns.data?.items ?? [])
    .filter(({ column }) => column.startsWith(prefix))
    .map(({ column }) => ({
      id: `m-${column}`,
      label: column.slice(prefix.length),
      description: t("command.metricSort"),
      leftSection: icon(IconChartDots),
      onClick: go(
        `/experiments?${new URLSearchParams({ cols: writeColumns(added(readColumns(undefined), column)) ?? "", sort: column })}`,
      ),
    }));
  return { isPending: columns.isLoading, metrics };
}

/** Sections of the documentation; they wait for the lists above them, so that what is first stays first. */
function useDocs(query: string, opened: boolean, areOthersPending: boolean): Action[] {
  const { i18n } = useTranslation();
  const go = useGo();
  const { language } = i18n;
  const isAsked = query.trim().length >= DOCS_FROM;
  const sections = useQuery({ ...docSections(language), enabled: opened && isAsked }).data;
  if (!isAsked || areOthersPending) return [];
  return searchDocs(sections ?? [], query, IN_GROUP).map(({ section, excerpt }) => {
    const info = DOCS.find((page) => page.slug === section.page);
    const title = info ? titleOf(info, language) : section.page;
    return {
      id: `d-${section.page}#${section.id}`,
      label: section.id ? `${title} › ${section.title}` : title,
      description: excerpt,
      lang: info && languageOf(info, language),
      leftSection: icon(IconBook2),
      onClick: go(`/docs/${section.page}${section.id ? `#${section.id}` : ""}`),
    };
  });
}

/** All that fits a query, in groups; what is named exactly comes before what only contains the words. */
export function useCommands(query: string, opened: boolean): SpotlightActionGroupData[] {
  const { t } = useTranslation();
  const go = useGo();
  const pages = usePages();
  const settings = useSettings();
  const { isPending, experiments, trials } = useExperiments(query, opened);
  const { isPending: areMetricsPending, metrics } = useMetrics(opened);
  const { isPending: areModelsPending, models } = useModels(query, opened);
  const { data: nodeList = [], isLoading: areNodesPending } = useQuery({ ...nodes, enabled: opened });
  const { data: views = [], isLoading: areViewsPending } = useQuery({ ...savedViews, enabled: opened });
  const areOthersPending = isPending || areMetricsPending || areModelsPending || areNodesPending || areViewsPending;
  const docs = useDocs(query, opened, areOthersPending);
  const { pathname } = useLocation();
  const isEmpty = query.trim() === "";
  const recent = recentPlaces()
    .filter(({ to }) => to !== pathname)
    .map(({ to, label }): Action => ({ id: `r${to}`, label, leftSection: icon(IconHistory), onClick: go(to) }));
  const viewList = views.map((view): Action => ({
    id: `v${view.id}`,
    label: view.name,
    description: view.project ?? "",
    leftSection: icon(IconBookmark),
    onClick: go(`/${view.page}?${view.query}`),
  }));
  const nodeActions = nodeList.map((item): Action => ({
    id: `n${item.id}`,
    label: item.name,
    description: stateWord(t, item.state),
    leftSection: icon(IconServer2),
    onClick: go(`/nodes/${encodeURIComponent(item.id)}`),
  }));
  const groups: [string, Action[]][] = [
    [t("command.recent"), isEmpty ? recent.slice(0, RECENT) : []],
    [t("command.pages"), matching(pages, query, pages.length)],
    [t("nav.experiments"), experiments],
    [t("command.trials"), trials],
    [t("nav.models"), models],
    [t("command.views"), matching(viewList, query, IN_GROUP)],
    [t("nav.nodes"), matching(nodeActions, query, IN_GROUP)],
    [t("command.metrics"), isEmpty ? [] : matching(metrics, query, IN_GROUP)],
    [t("nav.settings"), isEmpty ? [] : matching(settings, query, IN_GROUP)],
    [t("nav.docs"), docs],
  ];
  return groups.filter(([, actions]) => actions.length > 0).map(([group, actions]) => ({ group, actions }));
}
