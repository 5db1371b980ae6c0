import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter, notFound, redirect } from "@tanstack/react-router";

import { BASE } from "../lib/address";
import { ApiError } from "../api/client";
import { authState, me, trial, trialMetrics } from "../api/queries";
import { askForFirstRows } from "../features/experiments/list/asked";
import { NotFound, PageError, PagePending } from "./fallbacks";
import { type Early, lazyPage, type LazyPage } from "./lazyPage";
import { beginAtTop, scrollKey } from "./scrolling";
import { askEarlyForRun, RunPage } from "./RunPage";
import {
  addNodeSearch,
  checkpointsSearch,
  compareSearch,
  diagnosisSearch,
  docsSearch,
  experimentsSearch,
  goodputSearch,
  logsSearch,
  modelSearch,
  modelsSearch,
  queueSearch,
  runSearch,
  scalingSearch,
  settingsSearch,
  deviceSearch,
  sessionsSearch,
  signInSearch,
  submitSearch,
  trialSearch,
  versionSearch,
} from "./search";
import { Shell } from "./Shell";

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
    // At the same time, so that the menu never shows pages of a part that is not installed.
    const parts = context.queryClient.ensureQueryData(authState).catch(() => undefined);
    try {
      await context.queryClient.ensureQueryData(me);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      const state = await context.queryClient.fetchQuery(authState);
      if (state.setup_required) throw redirect({ to: "/setup" });
      throw redirect({ to: "/sign-in", search: { to: location.href === "/" ? undefined : location.href } });
    }
    await parts;
  },
});

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: signInSearch,
  component: lazyPage(() => import("../features/auth/SignIn"), "SignIn"),
});
const setupRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/setup",
  component: lazyPage(() => import("../features/auth/Setup"), "Setup"),
});
const invitationRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/invitation",
  component: lazyPage(() => import("../features/auth/Invitation"), "Invitation"),
});

const overviewRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/",
  component: lazyPage(() => import("../features/cluster/Overview"), "Overview"),
});
const nodesRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/nodes",
  component: lazyPage(() => import("../features/cluster/nodes/Nodes"), "Nodes"),
});
const addNodeRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/nodes/add",
  validateSearch: addNodeSearch,
  component: lazyPage(() => import("../features/cluster/nodes/AddNode"), "AddNode"),
});
const nodeRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/nodes/$nodeId",
  component: lazyPage(() => import("../features/cluster/nodes/NodePage"), "NodePage"),
});
const preflightRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/preflights/$preflightId",
  beforeLoad: ({ params }) => numeric(params.preflightId),
  component: lazyPage(() => import("../features/cluster/nodes/PreflightPage"), "PreflightPage"),
});
const queueRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/queue",
  validateSearch: queueSearch,
  component: lazyPage(() => import("../features/cluster/Queue"), "Queue"),
});

const goodputRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/goodput",
  validateSearch: goodputSearch,
  component: lazyPage(() => import("../features/cluster/goodput/GoodputPage"), "GoodputPage"),
});

const experimentsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/experiments",
  validateSearch: experimentsSearch,
  component: lazyPage(() => import("../features/experiments/list/Experiments"), "Experiments"),
  ...asksEarly(askForFirstRows),
});

const sharedReportRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/shared-report",
  component: lazyPage(() => import("../features/reports/SharedReport"), "SharedReport"),
});
const reportsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/reports",
  component: lazyPage(() => import("../features/reports/Reports"), "Reports"),
});
const reportRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/reports/$reportId",
  beforeLoad: ({ params }) => numeric(params.reportId),
  component: lazyPage(() => import("../features/reports/ReportPage"), "ReportPage"),
});

const schedulesRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/schedules",
  component: lazyPage(() => import("../features/schedules/Schedules"), "Schedules"),
});

const sessionsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/sessions",
  validateSearch: sessionsSearch,
  component: lazyPage(() => import("../features/sessions/Sessions"), "Sessions"),
});

const logsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/logs",
  validateSearch: logsSearch,
  component: lazyPage(() => import("../features/experiments/LogsPage"), "LogsPage"),
});

const checkpointsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/checkpoints",
  validateSearch: checkpointsSearch,
  component: lazyPage(() => import("../features/experiments/CheckpointsPage"), "CheckpointsPage"),
});

const modelsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/models",
  validateSearch: modelsSearch,
  component: lazyPage(() => import("../features/models/Models"), "Models"),
});

const modelRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/models/$name",
  validateSearch: modelSearch,
  component: lazyPage(() => import("../features/models/ModelPage"), "ModelPage"),
});

const deploymentsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments",
  component: lazyPage(() => import("../features/deployments/Deployments"), "Deployments"),
});

const deploymentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments/$name",
  component: lazyPage(() => import("../features/deployments/DeploymentPage"), "DeploymentPage"),
});

const modelVersionRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/models/$name/versions/$number",
  beforeLoad: ({ params }) => numeric(params.number),
  validateSearch: versionSearch,
  component: lazyPage(() => import("../features/models/VersionPage"), "VersionPage"),
});

const experimentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/experiments/$experimentId",
  beforeLoad: ({ params }) => numeric(params.experimentId),
  validateSearch: runSearch,
  component: RunPage,
  ...asksEarly((early) => (isNumeric(early.params["experimentId"] ?? "") ? askEarlyForRun(early) : Promise.resolve())),
});

const trialRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/trials/$trialId",
  beforeLoad: ({ params }) => numeric(params.trialId),
  validateSearch: trialSearch,
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
  validateSearch: diagnosisSearch,
  component: lazyPage(() => import("../features/diagnosis/DiagnosisPage"), "DiagnosisPage"),
});

const scalingRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/experiments/$experimentId/scaling",
  beforeLoad: ({ params }) => numeric(params.experimentId),
  validateSearch: scalingSearch,
  component: lazyPage(() => import("../features/scaling/ScalingPage"), "ScalingPage"),
});

const compareRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/compare",
  validateSearch: compareSearch,
  component: lazyPage(() => import("../features/compare/Compare"), "Compare"),
});

const submitRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/submit",
  validateSearch: submitSearch,
  component: lazyPage(() => import("../features/submit/Submit"), "Submit"),
});
const deviceRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/device",
  validateSearch: deviceSearch,
  component: lazyPage(() => import("../features/auth/Device"), "Device"),
});
const settingsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/settings",
  validateSearch: settingsSearch,
  component: lazyPage(() => import("../features/settings/Settings"), "Settings"),
});

/** "/docs" alone is the server's description of its routes. */
const docsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/docs/$",
  validateSearch: docsSearch,
  component: lazyPage(() => import("../features/docs/DocsPage"), "DocsPage"),
});

/** Whatever else is asked for, inside the frame. */
const lostRoute = createRoute({ getParentRoute: () => appRoute, path: "$", component: NotFound });

const routeTree = rootRoute.addChildren([
  signInRoute,
  setupRoute,
  invitationRoute,
  sharedReportRoute,
  appRoute.addChildren([
    deviceRoute,
    overviewRoute,
    nodesRoute,
    addNodeRoute,
    nodeRoute,
    preflightRoute,
    queueRoute,
    goodputRoute,
    experimentsRoute,
    experimentRoute,
    scalingRoute,
    trialRoute,
    diagnosisRoute,
    reportsRoute,
    reportRoute,
    schedulesRoute,
    sessionsRoute,
    logsRoute,
    checkpointsRoute,
    modelsRoute,
    modelRoute,
    modelVersionRoute,
    deploymentsRoute,
    deploymentRoute,
    compareRoute,
    submitRoute,
    settingsRoute,
    docsRoute,
    lostRoute,
  ]),
]);

export function createAppRouter(queryClient: QueryClient) {
  const router = createRouter({
    routeTree,
    basepath: BASE,
    context: { queryClient },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    defaultNotFoundComponent: NotFound,
    defaultErrorComponent: PageError,
    defaultPendingComponent: PagePending,
    defaultPendingMs: 200,
    defaultPendingMinMs: 0, // a page is shown as soon as it is there
    scrollRestoration: true,
    getScrollRestorationKey: scrollKey,
  });
  beginAtTop(router);
  return router;
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
    void queryClient.prefetchQuery({ ...authState, staleTime: Infinity });
    for (const { options } of routes) {
      const read = options.validateSearch;
      const search = (typeof read === "function" ? read(router.options.parseSearch(searchText)) : {}) as object;
      const early = { queryClient, params, search };
      options.staticData?.askEarly?.(early);
      void (options.component as Partial<LazyPage> | undefined)?.preload?.(early);
    }
  };
  ask(router.latestLocation.pathname, router.latestLocation.searchStr);
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
