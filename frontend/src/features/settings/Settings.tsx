import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { me } from "../../api/queries";
import { PageHead } from "../../components/basics";
import { Tabs } from "../../components/Tabs";
import { settingsTabs } from "../../lib/settingsTabs";
import { JoinTokens } from "./JoinTokens";
import { Notifications } from "./Notifications";
import { Pools } from "./Pools";
import { Password, Preferences } from "./Profile";
import { Projects } from "./Projects";
import { Retention } from "./Retention";
import { Secrets } from "./Secrets";
import { Tokens } from "./Tokens";
import { Users } from "./Users";

export function Settings() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/settings" });
  const user = useQuery(me).data;
  const tabs = settingsTabs(user?.role);
  const tab = tabs.find((name) => name === search.tab) ?? "profile";
  return (
    <>
      <PageHead guide="guides/dashboard#nodes-and-settings" title={t("nav.settings")} />
      <Tabs active={tab} label={t("nav.settings")} tabs={tabs.map((id) => ({ id, label: t(`settings.tab.${id}`) }))} />
      {tab === "profile" ? <Preferences /> : null}
      {tab === "notifications" ? <Notifications /> : null}
      {tab === "tokens" ? <Tokens /> : null}
      {tab === "secrets" ? <Secrets /> : null}
      {tab === "password" ? <Password /> : null}
      {tab === "projects" ? <Projects /> : null}
      {tab === "pools" ? <Pools /> : null}
      {tab === "users" ? <Users /> : null}
      {tab === "join" ? <JoinTokens /> : null}
      {tab === "retention" ? <Retention /> : null}
    </>
  );
}
