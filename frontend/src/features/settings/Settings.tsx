import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { useTranslation } from "react-i18next";

import { me } from "../../api/queries";
import { PageHead, Section } from "../../components/basics";
import { Tabs } from "../../components/Tabs";
import { mayOpen, settingsTabs, type SettingsTab, tabOf } from "../../lib/settingsTabs";
import { Forbidden } from "../../components/Obstacles";
import { Audit } from "./Audit";
import { Groups } from "./access/Groups";
import { JoinTokens } from "./access/JoinTokens";
import { Notifications } from "./notifications/Notifications";
import { Pools } from "./Pools";
import { Password, Preferences } from "./Profile";
import { TwoStep } from "./TwoStep";
import { Projects } from "./Projects";
import { Retention } from "./Retention";
import { Secrets } from "./Secrets";
import { SystemHealth } from "./SystemHealth";
import { Tokens } from "./access/Tokens";
import { Users } from "./access/Users";

const PAGES: Record<SettingsTab, ComponentType> = {
  profile: Preferences,
  notifications: Notifications,
  tokens: Tokens,
  secrets: Secrets,
  password: SigningIn,
  projects: Projects,
  pools: Pools,
  users: Users,
  groups: Groups,
  join: JoinTokens,
  retention: Retention,
  audit: Audit,
  system: SystemHealth,
};

function SigningIn() {
  return (
    <>
      <Section>
        <Password />
      </Section>
      <TwoStep />
    </>
  );
}

export function Settings() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/settings" });
  const user = useQuery(me).data;
  const tab = tabOf(search.tab);
  const Page = PAGES[tab];
  return (
    <>
      <PageHead guide="guides/dashboard#nodes-and-settings" title={t("nav.settings")} />
      <Tabs
        active={tab}
        label={t("nav.settings")}
        tabs={settingsTabs(user?.role).map((id) => ({ id, label: t(`settings.tab.${id}`) }))}
      />
      {mayOpen(tab, user?.role) ? <Page /> : <Forbidden>{t("settings.adminsOnly")}</Forbidden>}
    </>
  );
}
