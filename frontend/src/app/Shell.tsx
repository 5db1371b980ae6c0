import { ActionIcon, Drawer, Menu, Tooltip, useMantineColorScheme } from "@mantine/core";
import {
  IconAdjustmentsHorizontal,
  IconBook2,
  IconBox,
  IconBroadcast,
  IconChartLine,
  IconChartPie,
  IconChevronsLeft,
  IconChevronsRight,
  IconDeviceFloppy,
  IconDotsVertical,
  IconFileText,
  IconFlask2,
  IconLanguage,
  IconLayoutDashboard,
  IconLogout,
  IconMoon,
  IconPlus,
  IconSearch,
  IconReport,
  IconServer2,
  IconStack2,
  IconSun,
  IconUser,
} from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useRouter } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../api/client";
import { live, useLiveQueries, useLiveStatus, useRetryWhenBack } from "../api/liveHooks";
import { useIsThere } from "../api/parts";
import { cluster, me } from "../api/queries";
import { Cuts } from "../components/Cuts";
import { DiskFull } from "../components/DiskFull";
import { ErrorBoundary } from "../components/ErrorBoundary";
import { LinkButton } from "../components/LinkButton";
import { Mark } from "../components/text/Mark";
import { useTimeZone } from "../components/Time";
import { LANGUAGES, type Language, setLanguage, withTexts } from "../i18n";
import { readPref, writePref } from "../lib/prefs";
import { forgetPlaces } from "../lib/recentPlaces";
import { stamp } from "../lib/time";
import { command } from "./keyboard/commandStore";
import { Crumbs } from "./Crumbs";
import { InboxBell } from "./InboxBell";
import { keepFocus } from "./keepFocus";
import { preloadPages } from "./lazyPage";
import css from "./shell.module.css";

const CommandMenu = lazy(() => withTexts(import("./keyboard/CommandMenu")));
const MaintenanceBanner = lazy(() => withTexts(import("./MaintenanceBanner")));
const KeyboardMap = lazy(() => withTexts(import("./keyboard/KeyboardMap")));

/** The other pages are fetched after this, once the browser has nothing else to do. */
const PRELOAD_MS = 1000;
const PRELOAD_ANYWAY_MS = 5000;

/** Below which addresses a menu item is the chosen one, where it is not its own. */
const BELOW: Partial<Record<string, string>> = { docs: "/docs/" };

const NAV = [
  { to: "/", key: "overview", icon: IconLayoutDashboard },
  { to: "/experiments", key: "experiments", icon: IconFlask2 },
  { to: "/queue", key: "queue", icon: IconStack2 },
  { to: "/nodes", key: "nodes", icon: IconServer2 },
  { to: "/goodput", key: "goodput", icon: IconChartPie },
  { to: "/compare", key: "compare", icon: IconChartLine },
  { to: "/reports", key: "reports", icon: IconReport },
  { to: "/logs", key: "logs", icon: IconFileText },
  { to: "/checkpoints", key: "checkpoints", icon: IconDeviceFloppy },
  { to: "/models", key: "models", icon: IconBox },
  { to: "/deployments", key: "deployments", icon: IconBroadcast },
  { to: "/settings", key: "settings", icon: IconAdjustmentsHorizontal },
  // The route with its rest filled in, which the types of links do not know.
  { to: "/docs/contents" as "/docs/$", key: "docs", icon: IconBook2 },
] as const;

function LiveDot() {
  const { t } = useTranslation();
  const { state, lastContactAt } = useLiveStatus();
  const zone = useTimeZone();
  const time = lastContactAt === null ? "" : stamp(lastContactAt, zone, "time");
  const word = state === "offline" && time ? t("live.offlineSince", { time }) : t(`live.${state}`);
  return (
    <Tooltip label={t(`live.hint.${state}`)} multiline maw={280}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- its tooltip must be reachable by keyboard */}
      <span className={css["live"]} data-state={state} role="status" data-testid="live-state" tabIndex={0}>
        <span className={css["dot"]} aria-hidden />
        <span className={css["liveWord"]}>{word}</span>
      </span>
    </Tooltip>
  );
}

function ThemeSwitch() {
  const { t } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Tooltip label={t("theme.label")}>
          <ActionIcon variant="subtle" color="gray" aria-label={t("theme.label")} data-testid="theme-switch">
            {colorScheme === "dark" ? <IconMoon size={17} /> : <IconSun size={17} />}
          </ActionIcon>
        </Tooltip>
      </Menu.Target>
      <Menu.Dropdown>
        {(["light", "dark", "auto"] as const).map((scheme) => (
          <Menu.Item key={scheme} onClick={() => setColorScheme(scheme)} fw={colorScheme === scheme ? 600 : 400}>
            {t(`theme.${scheme}`)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function LanguageSwitch() {
  const { t, i18n } = useTranslation();
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Tooltip label={t("language.label")}>
          <ActionIcon variant="subtle" color="gray" aria-label={t("language.label")} data-testid="language-switch">
            <IconLanguage size={17} />
          </ActionIcon>
        </Tooltip>
      </Menu.Target>
      <Menu.Dropdown>
        {(Object.keys(LANGUAGES) as Language[]).map((language) => (
          <Menu.Item
            key={language}
            lang={language}
            onClick={() => void setLanguage(language)}
            fw={i18n.language === language ? 600 : 400}
          >
            {LANGUAGES[language]}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function UserMenu() {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const queryClient = useQueryClient();
  const router = useRouter();
  const signOut = async (): Promise<void> => {
    // Who leaves a shared machine leaves the provider, too: its own session would sign them in again.
    const page = user?.provider_account
      ? await unwrap(client.POST("/api/v1/auth/oidc/logout")).catch(() => undefined)
      : undefined;
    await unwrap(client.POST("/api/v1/auth/logout")).catch(() => undefined);
    live.stop();
    forgetPlaces();
    queryClient.clear();
    if (page) window.location.assign(page.url);
    else await router.navigate({ to: "/sign-in" });
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={t("nav.user", { name: user?.username ?? "" })}
          data-testid="user-menu"
        >
          <IconUser size={17} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {user?.username} · {user ? t(`role.${user.role}`) : ""}
        </Menu.Label>
        <Menu.Item leftSection={<IconAdjustmentsHorizontal size={14} />} component={Link} to="/settings">
          {t("nav.settings")}
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={14} />} onClick={() => void signOut()} data-testid="sign-out">
          {t("auth.signOut")}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function whenIdle(task: () => void): void {
  if ("requestIdleCallback" in window) requestIdleCallback(task, { timeout: PRELOAD_ANYWAY_MS });
  else task();
}

interface RailProps {
  isNarrow: boolean;
  maySubmit: boolean;
  onToggle: () => void;
}

/** The menu on the left. */
function Rail({ isNarrow, maySubmit, onToggle }: RailProps) {
  const { t } = useTranslation();
  const state = useQuery(cluster).data;
  const { pathname } = useLocation();
  const isThere = useIsThere();
  const items = NAV.filter(({ key }) => isThere(key)).map(({ to, key, icon: Icon }) => (
    <Link
      key={to}
      to={to}
      activeOptions={{ exact: to === "/" }}
      className={css["item"]}
      activeProps={{ "data-active": true }}
      {...(BELOW[key] && pathname.startsWith(BELOW[key]) ? { "data-active": true } : {})}
      title={isNarrow ? t(`nav.${key}`) : undefined}
    >
      <Icon size={17} stroke={1.75} aria-hidden />
      <span className={css["itemText"]}>{t(`nav.${key}`)}</span>
      {key === "queue" && state && state.num_trials_queued > 0 ? (
        <span className={css["count"]}>{state.num_trials_queued}</span>
      ) : null}
    </Link>
  ));
  return (
    <aside className={css["rail"]}>
      <Link to="/" className={css["brand"]} aria-label="Muster">
        <Mark />
        <span className={css["itemText"]}>Muster</span>
      </Link>
      <nav aria-label={t("nav.main")}>
        {maySubmit ? (
          <Link
            to="/submit"
            className={css["submit"]}
            title={isNarrow ? t("nav.submit") : undefined}
            data-testid="nav-submit"
          >
            <IconPlus size={16} aria-hidden />
            <span className={css["itemText"]}>{t("nav.submit")}</span>
          </Link>
        ) : null}
        {items}
      </nav>
      <div className={css["railFoot"]}>
        {isNarrow ? null : <span className="mono dim">{state?.server_version}</span>}
        <ActionIcon
          variant="subtle"
          color="gray"
          onClick={onToggle}
          aria-label={t(isNarrow ? "nav.expand" : "nav.collapse")}
          aria-expanded={!isNarrow}
        >
          {isNarrow ? <IconChevronsRight size={16} /> : <IconChevronsLeft size={16} />}
        </ActionIcon>
      </div>
    </aside>
  );
}

/** The menu of a phone: at the bottom, with a drawer for what has no room there. */
function PhoneMenu({ maySubmit }: { maySubmit: boolean }) {
  const { t } = useTranslation();
  const location = useLocation();
  const isThere = useIsThere();
  const [drawer, setDrawer] = useState(false);
  useEffect(() => setDrawer(false), [location.pathname]);
  const isElsewhere = NAV.slice(4).some(({ to }) => location.pathname.startsWith(`/${to.split("/")[1]}`));
  return (
    <>
      <nav className={css["bottom"]} aria-label={t("nav.main")}>
        {NAV.slice(0, 4).map(({ to, key, icon: Icon }) => (
          <Link key={to} to={to} activeOptions={{ exact: to === "/" }} activeProps={{ "data-active": true }}>
            <Icon size={20} stroke={1.6} aria-hidden />
            {t(`nav.${key}`)}
          </Link>
        ))}
        <button type="button" onClick={() => setDrawer(true)} data-active={isElsewhere || undefined}>
          <IconDotsVertical size={20} stroke={1.6} aria-hidden />
          {t("nav.more")}
        </button>
      </nav>
      <Drawer
        opened={drawer}
        onClose={() => setDrawer(false)}
        position="bottom"
        size="auto"
        title={t("nav.more")}
        closeButtonProps={{ "aria-label": t("common.close") }}
      >
        <div className={css["drawer"]}>
          {maySubmit ? (
            <LinkButton to="/submit" size="sm" leftSection={<IconPlus size={16} />}>
              {t("nav.submit")}
            </LinkButton>
          ) : null}
          {NAV.slice(4)
            .filter(({ key }) => isThere(key))
            .map(({ to, key }) => (
              <LinkButton key={to} to={to} size="sm" variant="default">
                {t(`nav.${key}`)}
              </LinkButton>
            ))}
          <div className={css["drawerRow"]}>
            <ThemeSwitch />
            <LanguageSwitch />
          </div>
        </div>
      </Drawer>
    </>
  );
}

export function Shell() {
  const { t } = useTranslation();
  const [collapsed, setCollapsed] = useState(() => readPref("rail") === "narrow");
  const location = useLocation();
  const user = useQuery(me).data;
  const queryClient = useQueryClient();
  const maySubmit = user?.role !== "viewer";

  useEffect(() => keepFocus(() => document.getElementById("main")), []);
  useEffect(() => {
    live.start();
    // What is on the screen comes first; then the other pages, so that they open without the server.
    const last = performance.now() + PRELOAD_ANYWAY_MS;
    const preload = (): void => {
      if (queryClient.isFetching() > 0 && performance.now() < last) timer = setTimeout(preload, PRELOAD_MS);
      else whenIdle(() => void preloadPages());
    };
    let timer = setTimeout(preload, PRELOAD_MS);
    return () => {
      clearTimeout(timer);
      live.stop();
    };
  }, [queryClient]);
  useLiveQueries("cluster", ["cluster"]);
  useRetryWhenBack();

  const toggle = (): void => {
    writePref("rail", collapsed ? null : "narrow");
    setCollapsed(!collapsed);
  };
  return (
    <div className={css["shell"]} data-collapsed={collapsed || undefined}>
      <a className={css["skip"]} href="#main">
        {t("nav.skip")}
      </a>
      <Rail isNarrow={collapsed} maySubmit={maySubmit} onToggle={toggle} />
      <header className={css["top"]}>
        <Link to="/" className={css["brandPhone"]} aria-label="Muster">
          <Mark />
        </Link>
        <Crumbs />
        <div className={css["tools"]}>
          <LiveDot />
          <InboxBell />
          <Tooltip label={t("command.open")}>
            <ActionIcon variant="subtle" color="gray" aria-label={t("command.open")} onClick={() => command.open()}>
              <IconSearch size={17} />
            </ActionIcon>
          </Tooltip>
          <span className={css["wide"]}>
            <LanguageSwitch />
          </span>
          <span className={css["wide"]}>
            <ThemeSwitch />
          </span>
          <UserMenu />
        </div>
      </header>
      <main id="main" className={css["main"]} tabIndex={-1}>
        <ErrorBoundary resetKey={location.pathname}>
          <DiskFull />
          <Suspense>
            <MaintenanceBanner />
          </Suspense>
          <Cuts />
          <Outlet />
        </ErrorBoundary>
      </main>
      <PhoneMenu maySubmit={maySubmit} />
      <Suspense>
        <CommandMenu />
        <KeyboardMap />
      </Suspense>
    </div>
  );
}
