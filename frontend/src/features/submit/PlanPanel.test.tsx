import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, beforeAll, expect, test, vi } from "vitest";

import type { Schemas } from "../../api/client";
import { showTexts } from "../../testing/texts";
import { PlanPanel } from "./PlanPanel";

const WAIT = { timeout: 20_000 };
vi.setConfig({ testTimeout: 30_000 }); // the editor is fetched for its parser, on a machine that may be busy
beforeAll(() => showTexts("en"));
afterEach(cleanup);

type Plan = Schemas["PlanOut"];
const MIB = 2 ** 20;
const memory = {
  parameters: 4 * MIB,
  gradients: 4 * MIB,
  optimizer: 8 * MIB,
  activations: 16 * MIB,
  buffers: 0,
  total: 32 * MIB,
};
const ddp: Plan["strategies"][number] = {
  kind: "ddp",
  is_chosen: true,
  problem: "",
  memory,
  fits: true,
  traffic: [{ group: "world", kind: "all_reduce", size: 2, count: 3, num_bytes: 4 * MIB }],
  link_bytes: 4 * MIB,
  step_ms: null,
};
const tp: Plan["strategies"][number] = {
  ...ddp,
  kind: "tp",
  is_chosen: false,
  problem: "trainer.model: mlp has no blocks",
  memory: null,
  fits: null,
  traffic: [],
  link_bytes: 0,
};
const plan: Plan = {
  known: true,
  is_pending: false,
  reason: "",
  reason_parts: [],
  num_params: 1e6,
  flops_per_sample: 2e6,
  slots: 2,
  global_batch: 64,
  slot_memory_bytes: 64 * MIB,
  slot_memory_source: "node n1, of its devices",
  strategies: [ddp, { ...ddp, kind: "fsdp", is_chosen: false }, tp],
  recommended: "fsdp",
  recommended_batch_size: 128,
  recommendation: "Of what fits, fsdp sends least.",
  time_source: "No scaling report of this model is there.",
};
const DOCUMENT = "trainer: {model: mlp, batch_size: 32}\n";

function show(
  found: Plan,
  {
    config = { trainer: { batch_size: 32 }, hyperparameters: {} } as Record<string, unknown>,
    overrides = [] as string[],
  } = {},
) {
  const onDocument = vi.fn<(text: string) => void>();
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  client.setQueryData(["plan", DOCUMENT, overrides], found);
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={client}>
        <PlanPanel document={DOCUMENT} overrides={overrides} config={config} behind={false} onDocument={onDocument} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return onDocument;
}

test("memory by part, what is sent, no time without a report, and each strategy", () => {
  show(plan);
  expect(screen.getByText("Fits: needs 32 MiB of 64 MiB per slot.")).toBeVisible();
  expect(within(screen.getByTestId("planner-memory")).getByRole("img")).toHaveAccessibleName(
    "Parameters 4 MiB, Gradients 4 MiB, Optimizer 8 MiB, Activations 16 MiB",
  );
  expect(within(screen.getByTestId("planner-traffic")).getByText("all_reduce")).toBeVisible();
  expect(screen.getByTestId("planner-step")).toHaveTextContent(
    "No step-time estimate yet. No scaling report of this model is there.",
  );
  expect(screen.getByText("trainer.model: mlp has no blocks")).toBeVisible();
});

test("a recommendation is taken over with one click", async () => {
  const onDocument = show(plan);
  fireEvent.click(screen.getByTestId("planner-use-kind"));
  await vi.waitFor(() => expect(onDocument).toHaveBeenCalledWith(`${DOCUMENT}strategy:\n  kind: fsdp\n`), WAIT);
  fireEvent.click(screen.getByTestId("planner-use-batch_size"));
  await vi.waitFor(() => expect(onDocument).toHaveBeenLastCalledWith("trainer: {model: mlp, batch_size: 128}\n"), WAIT);
});

test("nothing is offered that would not count: an override decides, or a search draws the batch", () => {
  show(plan, {
    overrides: ["strategy.kind=zero1"],
    config: { trainer: { batch_size: 32 }, hyperparameters: { batch_size: { choice: [8, 16] } } },
  });
  expect(screen.getByTestId("planner-use-kind")).toBeDisabled();
  expect(screen.queryByTestId("planner-use-batch_size")).toBeNull();
});

test("what is not known is said: the slot's memory, the time, all of it", () => {
  show({
    ...plan,
    slot_memory_bytes: null,
    slot_memory_source: "no node says",
    recommended_batch_size: null,
    strategies: [{ ...ddp, fits: null, step_ms: { value: 12, low: null, high: null, n: 1, is_determined: false } }],
  });
  expect(screen.getByText("Needs 32 MiB per slot (slot memory unknown).")).toBeVisible();
  expect(screen.getByTestId("planner-step")).toHaveTextContent("12 ms (no interval, n=1)");
  cleanup();
  show({
    ...plan,
    known: false,
    reason: "Unknown: a script of your own.",
    strategies: [],
    recommended: null,
    recommended_batch_size: null,
  });
  expect(screen.getByText("Unknown: a script of your own.")).toBeVisible();
  cleanup();
  show({
    ...plan,
    recommended: null,
    recommended_batch_size: null,
    recommendation: "Nothing fits.",
    strategies: [{ ...ddp, fits: false }],
  });
  expect(screen.getByText("Does not fit: needs 32 MiB per slot, which has 64 MiB.")).toBeVisible();
  expect(screen.getByText("No recommendation.")).toBeVisible();
});

test("while a node lists the layers that is said, and in the page's language why there are none", () => {
  const unknown = {
    ...plan,
    known: false,
    strategies: [],
    num_params: null,
    recommended: null,
    recommended_batch_size: null,
  };
  show({
    ...unknown,
    is_pending: true,
    reason: "n1 is listing the layers of the model. Wait a moment.",
    reason_parts: [{ code: "plan.listing", params: { node: "n1" } }],
  });
  expect(screen.getByTestId("planner-pending")).toHaveTextContent("n1 is listing the layers of the model.");
  cleanup();
  show({
    ...unknown,
    reason: "Memory and bytes are unknown until a node of pool default joins.",
    reason_parts: [{ code: "plan.no_node", params: { pool: "default" } }],
  });
  expect(screen.getByTestId("planner-unknown")).toHaveTextContent("unknown until a node of pool default joins");
});
