import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  notFound,
  redirect,
} from "@tanstack/react-router";

import { ApiError } from "../api/client";
import { authState, type CheckpointState, me, trial, trialMetrics } from "../api/queries";
import { type ChartSearch, chartSearch } from "../charts/chartSearch";
import { startOf } from "../lib/forking";
import { EXPERIMENT_STATES } from "../lib/states";
import { NotFound, PageError, PagePending } from "./fallbacks";
import { type Early, lazyPage, type LazyPage } from "./lazyPage";
import { Shell } from "./Shell";

const isOn = (value: unknown): true | undefined => (value === true || value === "true" ? true : undefined);
const instant = (value: unknown): string | undefined => (typeof value === "string" && !Number.isNaN(Date.parse(value)) ? new Date(value).toISOString() : undefined);
const text = (value: unknown): string | undefined => {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
};
const positive = (value: unknown): number | undefined => {
  const n = Number(value);
  return Number.isInteger(n) && n >= 0 ? n : undefined;
};

const rootRoute = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  notFoundComponent: NotFound,
});

/**
 * What a page asks the server, asked while its code is still on its way. The page finds the question
 * under way, or its answer. Nobody waits here, and what fails is told by the page when it asks itself.
 */
function asksEarly(ask: (early: Early) => Promise<unknown>) {
  const askEarly = (early: Early): void => {
    ask(early).catch(() => undefined);
  };
  return { staticData: { askEarly } };
}

/** Ids of experiments and trials are numbers; another address leads nowhere. */
const isNumeric = (id: string): boolean => /^[1-9]\d{0,14}$/.test(id);
const numeric = (id: string): void => {
  if (!isNumeric(id)) throw notFound();
};

/** Everything inside needs a signed-in user; without one the address is kept and sign-in shown. */
const appRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "app",
  component: Shell,
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queryClient.ensureQueryData(me);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      const state = await context.queryClient.fetchQuery(authState);
      if (state.setup_required) throw redirect({ to: "/setup" });
      throw redirect({ to: "/sign-in", search: { to: location.href === "/" ? undefined : location.href } });
    }
  },
});

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: (search: Record<string, unknown>): { to?: string } => ({ to: text(search["to"]) }),
  component: lazyPage(() => import("../features/auth/SignIn"), "SignIn"),
});
const setupRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/setup",
  component: lazyPage(() => import("../features/auth/Setup"), "Setup"),
});

const overviewRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/",
  component: lazyPage(() => import("../features/cluster/Overview"), "Overview"),
});
const nodesRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/nodes",
  component: lazyPage(() => import("../features/cluster/Nodes"), "Nodes"),
});
const nodeRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/nodes/$nodeId",
  component: lazyPage(() => import("../features/cluster/NodePage"), "NodePage"),
});
const preflightRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/preflights/$preflightId",
  beforeLoad: ({ params }) => numeric(params.preflightId),
  component: lazyPage(() => import("../features/cluster/PreflightPage"), "PreflightPage"),
});
const queueRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/queue",
  validateSearch: (search: Record<string, unknown>): { project?: string } => ({ project: text(search["project"]) }),
  component: lazyPage(() => import("../features/cluster/Queue"), "Queue"),
});

export interface ExperimentsSearch {
  state?: string;
  project?: string;
  q?: string;
  /** By comma: name=value, or the name alone. */
  label?: string;
  /** Columns by comma, with their widths; features/experiments/tableColumns. */
  cols?: string;
  /** A column, with "-" before it the largest first. */
  sort?: string;
  /** Conditions on columns, one per line. */
  where?: string;
  /** The experiment that is shown beside the table. */
  peek?: number;
  archived?: boolean;
}
const experimentsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/experiments",
  validateSearch: (search: Record<string, unknown>): ExperimentsSearch => {
    const states = (text(search["state"]) ?? "")
      .split(",")
      .filter((state) => (EXPERIMENT_STATES as readonly string[]).includes(state));
    return {
      state: states.length > 0 ? states.join(",") : undefined,
      project: text(search["project"]),
      q: text(search["q"]),
      label: text(search["label"]),
      cols: text(search["cols"]),
      sort: text(search["sort"]),
      where: text(search["where"]),
      peek: positive(search["peek"]),
      archived: search["archived"] === true || search["archived"] === "true" ? true : undefined,
    };
  },
  component: lazyPage(() => import("../features/experiments/Experiments"), "Experiments"),
});

/** What of a log is asked for, and the line that is selected. */
export interface LogSearch {
  /** Numbers of trials, by comma: of an experiment's log. */
  trial?: string;
  rank?: string;
  attempt?: number;
  stream?: string;
  q?: string;
  node?: string;
  level?: string;
  since?: string;
  until?: string;
  regex?: boolean;
  exact?: boolean;
  around?: boolean;
  line?: string;
}
const logSearch = (search: Record<string, unknown>): LogSearch => ({
  trial: text(search["trial"]),
  rank: text(search["rank"]),
  attempt: positive(search["attempt"]),
  stream: search["stream"] === "stdout" || search["stream"] === "stderr" ? search["stream"] : undefined,
  q: text(search["q"]),
  node: text(search["node"]),
  level: text(search["level"]),
  since: instant(search["since"]),
  until: instant(search["until"]),
  regex: isOn(search["regex"]),
  exact: isOn(search["exact"]),
  around: isOn(search["around"]),
  line: /^\d{1,15}:\d{1,15}$/.test(String(search["line"])) ? String(search["line"]) : undefined,
});

export interface LogsSearch extends LogSearch {
  experiment?: number;
}
const logsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/logs",
  validateSearch: (search: Record<string, unknown>): LogsSearch => ({ ...logSearch(search), experiment: positive(search["experiment"]) }),
  component: lazyPage(() => import("../features/experiments/LogsPage"), "LogsPage"),
});

/** Which checkpoints are shown, and in which order. */
export interface CheckpointSearch {
  saved?: CheckpointState;
  order?: "largest";
}
const checkpointSearch = (search: Record<string, unknown>): CheckpointSearch => ({
  saved: search["saved"] === "complete" || search["saved"] === "deleting" || search["saved"] === "deleted" ? search["saved"] : undefined,
  order: search["order"] === "largest" ? "largest" : undefined,
});
const checkpointsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/checkpoints",
  validateSearch: (search: Record<string, unknown>): CheckpointSearch & { project?: string } => ({ ...checkpointSearch(search), project: text(search["project"]) }),
  component: lazyPage(() => import("../features/experiments/CheckpointsPage"), "CheckpointsPage"),
});

export interface ExperimentSearch extends CheckpointSearch, LogSearch {
  tab?: string;
  sort?: "no" | "-no" | "metric" | "-metric";
  trialState?: string;
  metric?: string;
}
const experimentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/experiments/$experimentId",
  beforeLoad: ({ params }) => numeric(params.experimentId),
  validateSearch: (search: Record<string, unknown>): ExperimentSearch => {
    const sort = text(search["sort"]);
    return {
      ...logSearch(search),
      ...checkpointSearch(search),
      tab: text(search["tab"]),
      sort: sort === "no" || sort === "-no" || sort === "metric" || sort === "-metric" ? sort : undefined,
      trialState: text(search["trialState"]),
      metric: text(search["metric"]),
    };
  },
  component: lazyPage(() => import("../features/experiments/ExperimentPage"), "ExperimentPage"),
});

export interface TrialSearch extends ChartSearch, LogSearch {
  tab?: string;
}
const trialRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/trials/$trialId",
  beforeLoad: ({ params }) => numeric(params.trialId),
  validateSearch: (search: Record<string, unknown>): TrialSearch => {
    return {
      ...chartSearch(search),
      ...logSearch(search),
      tab: text(search["tab"]),
    };
  },
  component: lazyPage(() => import("../features/trials/TrialPage"), "TrialPage"),
  ...asksEarly(({ queryClient, params }) => {
    const id = Number(params["trialId"]);
    if (!isNumeric(params["trialId"] ?? "")) return Promise.resolve();
    return Promise.all([queryClient.prefetchQuery(trial(id)), queryClient.prefetchQuery(trialMetrics(id))]);
  }),
});

const diagnosisRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/trials/$trialId/diagnosis",
  beforeLoad: ({ params }) => numeric(params.trialId),
  validateSearch: (search: Record<string, unknown>): { diagnosis?: number } => ({ diagnosis: positive(search["diagnosis"]) }),
  component: lazyPage(() => import("../features/diagnosis/DiagnosisPage"), "DiagnosisPage"),
});

/** What of a scaling report is looked at: which one, and what it is to predict beside its sizes. */
export interface ScalingSearch {
  report?: number;
  /** World sizes, by comma. */
  slots?: string;
  /** Of other networks, in Mbit/s, by comma. */
  bandwidth?: string;
  /** Of those networks, in microseconds. */
  latency?: number;
}
const scalingRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/experiments/$experimentId/scaling",
  beforeLoad: ({ params }) => numeric(params.experimentId),
  validateSearch: (search: Record<string, unknown>): ScalingSearch => {
    const latency = Number(search["latency"] ?? Number.NaN);
    return {
      report: positive(search["report"]),
      slots: text(search["slots"]),
      bandwidth: text(search["bandwidth"]),
      latency: Number.isFinite(latency) && latency >= 0 ? latency : undefined,
    };
  },
  component: lazyPage(() => import("../features/scaling/ScalingPage"), "ScalingPage"),
});

export interface CompareSearch extends ChartSearch {
  tab?: string;
  /** Ids, by comma, in the order in which they were chosen. */
  trials?: string;
  hide?: string;
  /** The key of the configuration that makes groups. */
  group?: string;
  /** Also what does not differ. */
  all?: boolean;
  stat?: "min" | "max";
}
const compareRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/compare",
  validateSearch: (search: Record<string, unknown>): CompareSearch => ({
    ...chartSearch(search),
    tab: text(search["tab"]),
    trials: text(search["trials"]),
    hide: text(search["hide"]),
    group: text(search["group"]),
    all: search["all"] === true || undefined,
    stat: search["stat"] === "min" || search["stat"] === "max" ? search["stat"] : undefined,
  }),
  component: lazyPage(() => import("../features/compare/Compare"), "Compare"),
});

const submitRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/submit",
  validateSearch: (search: Record<string, unknown>): { from?: number; start?: string; template?: string } => ({
    from: positive(search["from"]),
    start: startOf(text(search["start"])) === "" ? undefined : text(search["start"]),
    template: text(search["template"]),
  }),
  component: lazyPage(() => import("../features/submit/Submit"), "Submit"),
});
const settingsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/settings",
  validateSearch: (search: Record<string, unknown>): { tab?: string; project?: string } => ({ tab: text(search["tab"]), project: text(search["project"]) }),
  component: lazyPage(() => import("../features/settings/Settings"), "Settings"),
});

/** Whatever else is asked for, inside the frame. */
const lostRoute = createRoute({ getParentRoute: () => appRoute, path: "$", component: NotFound });

const routeTree = rootRoute.addChildren([
  signInRoute,
  setupRoute,
  appRoute.addChildren([
    overviewRoute,
    nodesRoute,
    nodeRoute, preflightRoute,
    queueRoute,
    experimentsRoute,
    experimentRoute, scalingRoute,
    trialRoute, diagnosisRoute,
    logsRoute,
    checkpointsRoute,
    compareRoute,
    submitRoute,
    settingsRoute,
    lostRoute,
  ]),
]);

export function createAppRouter(queryClient: QueryClient) {
  return createRouter({
    routeTree,
    context: { queryClient },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    defaultNotFoundComponent: NotFound,
    defaultErrorComponent: PageError,
    defaultPendingComponent: PagePending,
    defaultPendingMs: 200,
    defaultPendingMinMs: 0, // a page is shown as soon as it is there
    scrollRestoration: true,
  });
}

/**
 * Fetch what a page needs all at once: its code, its data and, for the first one, who is signed in.
 * Without it they come one after the other, each only when the part before has run.
 */
export function startEarly(router: ReturnType<typeof createAppRouter>, queryClient: QueryClient): void {
  const ask = (pathname: string, searchText: string): void => {
    const [routes, params] = router.getMatchedRoutes(pathname);
    if (!routes.some((route) => route.id === appRoute.id)) return;
    void queryClient.prefetchQuery(me);
    for (const { options } of routes) {
      const read = options.validateSearch;
      const search = (typeof read === "function" ? read(router.options.parseSearch(searchText)) : {}) as object;
      const early = { queryClient, params, search };
      options.staticData?.askEarly?.(early);
      void (options.component as Partial<LazyPage> | undefined)?.preload?.(early);
    }
  };
  ask(location.pathname, location.search);
  router.subscribe("onBeforeNavigate", ({ fromLocation, toLocation, pathChanged }) => {
    if (fromLocation && pathChanged) ask(toLocation.pathname, toLocation.searchStr);
  });
}

declare module "@tanstack/react-router" {
  interface StaticDataRouteOption {
    askEarly?: (early: Early) => void;
  }
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
