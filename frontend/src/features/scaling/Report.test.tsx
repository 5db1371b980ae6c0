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
import { cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import axe from "axe-core";
import { afterEach, beforeAll, expect, test, vi } from "vitest";

import { type ExperimentDetail, me } from "../../api/queries";
import type { ScalingReport, ScalingReportItem } from "../../api/scaling";
import { showTexts } from "../../testing/texts";
import { CancelDialog } from "./CancelDialog";
import { Report } from "./Report";
import { StartDialog } from "../../common/scaling/StartDialog";

const WIDTH = 600;
vi.setConfig({ testTimeout: 30_000 }); // axe walks the whole page, on a machine that may be busy

beforeAll(async () => {
  await showTexts("en");
  // Charts are as wide as their box, which jsdom does not lay out.
  class Wide {
    constructor(private readonly told: ResizeObserverCallback) {}
    observe(target: Element): void {
      this.told(
        [{ target, contentRect: { width: WIDTH, height: 200 } } as unknown as ResizeObserverEntry],
        this as unknown as ResizeObserver,
      );
    }
    unobserve(): void {}
    disconnect(): void {}
  }
  vi.stubGlobal("ResizeObserver", Wide);
  vi.stubGlobal("requestAnimationFrame", (run: () => void) => setTimeout(run, 0));
  vi.stubGlobal("scrollTo", () => {});
});
afterEach(cleanup);

const estimate = (value: number, spread: number | null) => ({
  value,
  low: spread === null ? null : value - spread,
  high: spread === null ? null : value + spread,
  n: spread === null ? 1 : 3,
  is_determined: spread !== null && 2 * spread <= value,
});
const sizes = [1, 2].map((slots) => ({
  slots,
  num_runs: 3,
  num_steps: 180,
  samples_per_slot: 32,
  step_ms: estimate(10 * slots, slots === 1 ? 0.5 : null),
  samples_per_s: estimate(3000, 50),
  speedup: estimate(slots * 0.9, 0.1),
  efficiency: estimate(0.9, 0.1),
  parts_ms: { compute: 6 * slots, optimizer: 1, data: 1, transfer: slots, wait: 0, other: 1 },
  hidden_ms: 0.5,
}));
const points = [1, 2].map((slots) => ({
  slots,
  repeat: 1,
  experiment_id: 40 + slots,
  state: "COMPLETED",
  step_ms: 10,
  samples_per_s: 3000,
  num_steps: 60,
  problem: "",
}));
const done: ScalingReport = {
  id: 3,
  experiment_id: 7,
  experiment_name: "scales",
  state: "done",
  reason: "",
  mode: "weak",
  num_steps: 60,
  slot_hours: null,
  requested_by: "ada",
  created_at: "2026-01-01T00:00:00Z",
  ended_at: "2026-01-01T01:00:00Z",
  num_runs: 2,
  num_over: 2,
  points,
  sizes,
  model: {
    compute_fixed_ms: estimate(2, 0.1),
    compute_per_sample_ms: estimate(0.2, 0.01),
    contention: estimate(1.2, 0.1),
    other_ms: estimate(3, 0.5),
    latency_us: null,
    bandwidth_bytes_per_s: estimate(125e6, 1e6),
    hidden_share: 0.4,
    num_transfers: 120,
    transfer_error: 0.03,
    step_error: 0.02,
    reasons: ["Latency cannot be told from bandwidth."],
  },
  predictions: [4, 8].map((slots) => ({
    slots,
    network: "measured",
    samples_per_slot: 32,
    step_ms: estimate(12, 2),
    compute_ms: 8,
    communication_ms: 3,
    exposed_ms: 2,
    other_ms: 2,
    samples_per_s: estimate(3000 * slots, 500),
    efficiency: 0.8,
    doubt: "",
    doubt_parts: [],
  })),
};

async function show(node: React.ReactNode): Promise<HTMLElement> {
  const root = createRootRoute();
  const app = createRoute({ getParentRoute: () => root, id: "app", component: Outlet });
  const page = createRoute({
    getParentRoute: () => app,
    path: "/experiments/$experimentId/scaling",
    component: () => (
      <main>
        <h1>Scaling</h1>
        {node}
      </main>
    ),
  });
  const other = createRoute({ getParentRoute: () => app, path: "/experiments/$experimentId" });
  const router = createRouter({
    routeTree: root.addChildren([app.addChildren([page, other])]),
    history: createMemoryHistory({ initialEntries: ["/experiments/7/scaling"] }),
  });
  const queryClient = new QueryClient();
  queryClient.setQueryData(me.queryKey, { username: "ada", role: "admin" } as never);
  const { container } = render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  await screen.findByRole("heading", { name: "Scaling" });
  return container;
}

test("a report: charts with tables behind, the model in words, what is open, predictions", async () => {
  await show(<Report report={done} busy={false} />);
  const measured = screen.getByTestId("scaling-measured");
  expect(within(measured).getByText("1.7 × … 1.9 ×, n=3")).toBeVisible();
  expect(within(measured).getByText("no interval, n=1")).toBeVisible();
  for (const id of ["scaling-speedup", "scaling-efficiency", "scaling-parts"]) {
    const figure = screen.getByTestId(id);
    await waitFor(() => expect(figure.querySelectorAll("svg[role=img] text").length).toBeGreaterThan(2));
    expect(figure.querySelector("svg[role=img]")?.outerHTML).not.toMatch(/NaN|Infinity|undefined/);
    fireEvent.click(screen.getByTestId(`${id}-table`));
    expect(figure.querySelector("table")).toBeVisible();
    fireEvent.click(screen.getByTestId(`${id}-table`));
  }
  expect(screen.getByText("not determined")).toBeVisible();
  expect(screen.getByText(/1 Gbit\/s/)).toBeVisible();
  expect(screen.getByTestId("scaling-open")).toHaveTextContent("Latency cannot be told from bandwidth.");
  expect(within(screen.getByTestId("scaling-predictions")).getAllByRole("row")).toHaveLength(3);
  expect(screen.getByRole("link", { name: "#41" })).toHaveAttribute("href", "/experiments/41");
});

test("axe finds nothing in a report, drawn or as tables", async () => {
  const container = await show(<Report report={done} busy={false} />);
  fireEvent.click(screen.getByTestId("scaling-parts-table"));
  const { violations } = await axe.run(container, { rules: { "color-contrast": { enabled: false } } });
  expect(violations.map((found) => `${found.id}: ${found.nodes[0]?.html}`)).toEqual([]);
});

test("a running report names the run that is under way; one without figures says so", async () => {
  const [first, second] = points as [ScalingReport["points"][number], ScalingReport["points"][number]];
  await show(
    <Report
      report={{
        ...done,
        state: "running",
        num_over: 1,
        sizes: [],
        model: null,
        predictions: [],
        points: [first, { ...second, state: "QUEUED", step_ms: null }],
      }}
      busy={false}
    />,
  );
  expect(screen.getByTestId("scaling-now")).toHaveTextContent("Now: 2 slots, repeat 1 Experiment #42 (Queued)");
  expect(screen.getByText("1 of 2 runs done")).toBeVisible();
  expect(screen.getByText("No measurements yet")).toBeVisible();
});

test("canceled and failed say why, and a run without figures too", async () => {
  const failed = {
    ...(points[0] as ScalingReport["points"][number]),
    state: null,
    step_ms: null,
    problem: "Its experiment was deleted.",
  };
  await show(
    <>
      <Report
        report={{
          ...done,
          state: "canceled",
          reason: "Canceled by ada.",
          sizes: [],
          model: null,
          predictions: [],
          points: [{ ...failed, experiment_id: null, problem: "" }],
        }}
        busy={false}
      />
      <Report
        report={{
          ...done,
          state: "failed",
          reason: "No run was measured.",
          sizes: [],
          model: null,
          predictions: [],
          points: [failed],
        }}
        busy={false}
      />
    </>,
  );
  for (const text of ["Canceled by ada.", "No run was measured.", "not launched yet", "Its experiment was deleted."])
    expect(screen.getByText(text)).toBeVisible();
  expect(screen.getAllByText("No run has a measurement. See the reason for each below.")).toHaveLength(2);
});

test("the dialog says how many runs there will be, and refuses lists that are none", async () => {
  const experiment = {
    id: 7,
    name: "scales",
    slots_per_trial: 2,
    config: { trainer: null },
  } as unknown as ExperimentDetail;
  await show(<StartDialog experiment={experiment} onClose={() => {}} />);
  expect(screen.getByText("6 runs")).toBeVisible();
  expect(screen.getByText(/sets its batch size/)).toBeVisible();
  const field = screen.getByLabelText("World sizes in slots, comma-separated");
  fireEvent.change(field, { target: { value: "1, two" } });
  expect(screen.getByText("Enter whole numbers from 1 to 4096, separated by commas")).toBeVisible();
  expect(screen.getByTestId("scaling-begin")).toBeDisabled();
  const { violations } = await axe.run(document.body, {
    rules: { "color-contrast": { enabled: false }, region: { enabled: false } },
  });
  expect(violations.map((found) => `${found.id}: ${found.nodes[0]?.html}`)).toEqual([]);
});

test("a report is canceled only once it was said what is lost", async () => {
  const running = { id: 5, state: "running", num_runs: 6, num_over: 2 } as unknown as ScalingReportItem;
  await show(<CancelDialog report={running} onClose={() => {}} />);
  expect(screen.getByTestId("cancel-text")).toHaveTextContent("4 runs are not measured.");
  expect(screen.getByText(/The measurements of 2 of 6 runs are kept/)).toBeVisible();
  expect(screen.getByRole("button", { name: "Keep measuring" })).toBeVisible();
  expect(screen.getByRole("button", { name: "Cancel report" })).toBeEnabled();
});
