import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Outlet,
  RouterProvider,
} from "@tanstack/react-router";
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";

import { type Deployment, deployment as deploymentQuery, deploymentList } from "../../api/queries";
import { showTexts } from "../../testing/texts";
import { DeploymentPage } from "./DeploymentPage";
import { Deployments } from "./Deployments";

vi.setConfig({ testTimeout: 30_000 });
beforeAll(() => showTexts("en"));
afterEach(cleanup);

const found: Deployment = {
  name: "digits",
  project: "default",
  owner: "ada",
  state: "degraded",
  message: "The update to version 3 of digits was given up: 10% of its requests failed.",
  url: "http://127.0.0.1:8471/digits",
  model: "digits",
  version: 2,
  reference: "digits@production",
  revision: 2,
  num_replicas: 2,
  num_ready: 1,
  slots: 1,
  requests_per_s: 12.5,
  num_requests: 100,
  num_errors: 3,
  latency_p50_ms: 4,
  latency_p95_ms: 9,
  latency_p99_ms: null,
  created_at: "2026-01-01T00:00:00Z",
  created_by: "user:ada",
  updated_at: "2026-01-01T00:00:00Z",
  may_change: true,
  options: {
    pool: "default",
    slot_type: "cpu",
    priority: 50,
    listen: "loopback",
    max_batch: 32,
    max_queue: 256,
    max_body_bytes: 8_388_608,
    max_tokens: 512,
    ready_within_s: 300,
  },
  revisions: [
    {
      number: 3,
      reference: "digits:3",
      model: "digits",
      version: 3,
      state: "failed",
      reason: "newer",
      message: "10% of its requests failed",
      created_at: "2026-01-01T00:00:00Z",
      created_by: "user:ada",
      settled_at: null,
    },
  ],
  replicas: [
    {
      id: 1,
      revision: 2,
      version: 2,
      phase: "serving",
      phase_since: "2026-01-01T00:00:00Z",
      experiment_id: 7,
      trial_id: 9,
      trial_state: "RUNNING",
      node: "node-1",
      reason: "",
      num_requests: 100,
      num_errors: 3,
      requests_per_s: 12.5,
      latency_p50_ms: 4,
      latency_p95_ms: 9,
      latency_p99_ms: null,
    },
  ],
};

function show(path: string, items: Deployment[]): void {
  const root = createRootRoute();
  const app = createRoute({ getParentRoute: () => root, id: "app", component: Outlet });
  const routes = [
    createRoute({ getParentRoute: () => app, path: "/deployments", component: Deployments }),
    createRoute({ getParentRoute: () => app, path: "/deployments/$name", component: DeploymentPage }),
    createRoute({ getParentRoute: () => app, path: "/models/$name/versions/$number" }),
    createRoute({ getParentRoute: () => app, path: "/trials/$trialId" }),
    createRoute({ getParentRoute: () => app, path: "/docs/$" }),
  ];
  const router = createRouter({
    routeTree: root.addChildren([app.addChildren(routes)]),
    history: createMemoryHistory({ initialEntries: [path] }),
  });
  const queryClient = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  queryClient.setQueryData(deploymentList().queryKey, { pages: [{ items, next: null }], pageParams: [undefined] });
  for (const item of items) queryClient.setQueryData(deploymentQuery(item.name).queryKey, item);
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test("without deployments the page says how to make one", async () => {
  show("/deployments", []);
  expect(await screen.findByText("No deployments yet")).toBeVisible();
  expect(screen.getByText("muster deploy digits@production --replicas 2")).toBeVisible();
});

test("a deployment is shown with its state, what it serves and how many replicas are ready", async () => {
  show("/deployments", [found]);
  const row = await screen.findByRole("row", { name: /digits/ });
  expect(within(row).getByText("Degraded")).toBeVisible();
  expect(within(row).getByText("1 of 2 ready")).toBeVisible();
  expect(within(row).getByRole("link", { name: "digits:2" })).toHaveAttribute("href", "/models/digits/versions/2");
});

test("a page says why an update was given up, and lists replicas and revisions", async () => {
  show("/deployments/digits", [found]);
  expect(await screen.findByText(/was given up: 10% of its requests failed/)).toBeVisible();
  expect(within(screen.getByTestId("replicas")).getByText("3 of 100")).toBeVisible();
  expect(within(screen.getByTestId("revisions")).getByText("newer · 10% of its requests failed")).toBeVisible();
  expect(screen.getByTestId("deployment-rollback")).toBeVisible();
});
