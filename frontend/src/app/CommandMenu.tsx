import "@mantine/spotlight/styles.css";

import { Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import {
  IconChartLine,
  IconFileText,
  IconFlask2,
  IconKeyboard,
  IconLayoutDashboard,
  IconPlus,
  IconSearch,
  IconServer2,
  IconStack2,
  IconAdjustmentsHorizontal,
  IconBookmark,
  IconDeviceFloppy,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../api/client";
import { nodes, savedViews } from "../api/queries";
import { stateWord } from "../components/StateBadge";
import { keyMap } from "./keyMap";
import { openFirst } from "./openFirst";

/** Ctrl/Cmd+K: pages, nodes and experiments by name. */
export default function CommandMenu() {
  const { t } = useTranslation();
  const router = useRouter();
  const [query, setQuery] = useState("");
  const [opened, setOpened] = useState(false);
  const nodeList = useQuery({ ...nodes, enabled: opened }).data ?? [];
  const found = useQuery({
    queryKey: ["command", query],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/experiments", { params: { query: { q: query || undefined, limit: 8 } }, signal })),
    enabled: opened,
    placeholderData: (previous) => previous,
  }).data;
  const views = useQuery({ ...savedViews, enabled: opened }).data ?? [];
  const go = (to: string) => () => void router.navigate({ to });
  const pages: SpotlightActionData[] = [
    { id: "overview", label: t("nav.overview"), leftSection: <IconLayoutDashboard size={16} />, onClick: go("/") },
    {
      id: "experiments",
      label: t("nav.experiments"),
      leftSection: <IconFlask2 size={16} />,
      onClick: go("/experiments"),
    },
    { id: "compare", label: t("nav.compare"), leftSection: <IconChartLine size={16} />, onClick: go("/compare") },
    { id: "submit", label: t("nav.submit"), leftSection: <IconPlus size={16} />, onClick: go("/submit") },
    { id: "queue", label: t("nav.queue"), leftSection: <IconStack2 size={16} />, onClick: go("/queue") },
    { id: "nodes", label: t("nav.nodes"), leftSection: <IconServer2 size={16} />, onClick: go("/nodes") },
    { id: "logs", label: t("nav.logs"), leftSection: <IconFileText size={16} />, onClick: go("/logs") },
    {
      id: "checkpoints",
      label: t("nav.checkpoints"),
      leftSection: <IconDeviceFloppy size={16} />,
      onClick: go("/checkpoints"),
    },
    {
      id: "settings",
      label: t("nav.settings"),
      leftSection: <IconAdjustmentsHorizontal size={16} />,
      onClick: go("/settings"),
    },
    { id: "keys", label: t("command.keys"), leftSection: <IconKeyboard size={16} />, onClick: () => keyMap.open() },
  ];
  return (
    <Spotlight
      query={query}
      onQueryChange={setQuery}
      onSpotlightOpen={() => setOpened(true)}
      onSpotlightClose={() => setOpened(false)}
      shortcut="mod + K"
      lockScroll={false}
      scrollable
      maxHeight={420}
      nothingFound={t("command.none")}
      searchProps={{
        leftSection: <IconSearch size={16} />,
        placeholder: t("command.placeholder"),
        "aria-label": t("command.placeholder"),
        autoFocus: true,
        onKeyDown: openFirst,
      }}
      actions={[
        { group: t("command.pages"), actions: pages },
        {
          group: t("nav.experiments"),
          actions: (found?.items ?? []).map((item) => ({
            id: `e${item.id}`,
            label: item.name,
            description: `#${item.id} · ${stateWord(t, item.state)}`,
            leftSection: <IconFlask2 size={16} />,
            onClick: go(item.only_trial_id ? `/trials/${item.only_trial_id}` : `/experiments/${item.id}`),
          })),
        },
        {
          group: t("command.views"),
          actions: views.map((view) => ({
            id: `v${view.id}`,
            label: view.name,
            description: view.project ?? "",
            leftSection: <IconBookmark size={16} />,
            onClick: () => router.history.push(`/${view.page}?${view.query}`),
          })),
        },
        {
          group: t("nav.nodes"),
          actions: nodeList.slice(0, 200).map((item) => ({
            id: `n${item.id}`,
            label: item.name,
            description: stateWord(t, item.state),
            leftSection: <IconServer2 size={16} />,
            onClick: go(`/nodes/${encodeURIComponent(item.id)}`),
          })),
        },
      ]}
    />
  );
}
