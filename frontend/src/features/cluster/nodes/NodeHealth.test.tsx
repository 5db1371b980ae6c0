import { MantineProvider } from "@mantine/core";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeAll, expect, test } from "vitest";

import { showTexts } from "../../../testing/texts";
import { NodeHealth } from "./NodeHealth";
import { NodeState } from "./NodeState";

beforeAll(() => showTexts("en"));
afterEach(cleanup);
const well = { quarantine_reason: "", problems: [], slots: [], strikes: 0, strike_reason: "" };
const show = (node: Parameters<typeof NodeHealth>[0]["node"]) =>
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <NodeHealth node={node} />
    </MantineProvider>,
  );

test("a node that is well says nothing", () => {
  show(well);
  expect(screen.getByTestId("node-health")).toBeEmptyDOMElement();
});

test("each problem says whether it keeps new work away", () => {
  show({
    ...well,
    problems: [
      { kind: "disk", message: "12 MiB are free in /data", blocks: true },
      { kind: "clock", message: "7 s ahead", blocks: false },
      { kind: "fans", message: "loud", blocks: false },
    ],
  });
  expect(screen.getByRole("alert")).toHaveTextContent(
    "12 MiB are free in /dataDisk: no new trials are placed here until this is resolved.",
  );
  expect(screen.getByTestId("node-health")).toHaveTextContent("7 s aheadClock: trials are still placed here.");
  expect(screen.getByTestId("node-health")).toHaveTextContent("Loudfans: trials are still placed here.");
});

test("a device that others use keeps new work off its slot, unless the pool ignores that", () => {
  const used = "GPU 1 is used by ann (pid 4242, 31 GiB) outside Muster";
  const slot = {
    index: 1,
    slot_type: "cuda",
    name: "",
    memory_bytes: 0,
    allocation_id: null,
    experiment_id: null,
    experiment_name: null,
    trial_id: null,
    rank: null,
    problem: used,
  };
  const problems = [{ kind: "used", message: used, blocks: true, slot: 1 }];
  show({ ...well, problems, slots: [slot] });
  expect(screen.getByRole("alert")).toHaveTextContent(
    `${used}In use outside Muster: no new trials are placed on slot 1 until this is over.`,
  );
  cleanup();
  show({ ...well, problems, slots: [{ ...slot, problem: "" }] });
  expect(screen.getByTestId("node-health")).toHaveTextContent("In use outside Muster: trials are still placed here.");
});

test("failures to prepare are counted until they lead to a quarantine, which names its reason", () => {
  const { rerender } = show({ ...well, strikes: 2, strike_reason: "python3 is not there" });
  expect(screen.getByTestId("node-health")).toHaveTextContent(
    "2 trials in a row could not be prepared here because of a problem on the node.python3 is not there",
  );
  rerender(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <NodeHealth
        node={{ ...well, strikes: 3, strike_reason: "python3 is not there", quarantine_reason: "3 failures in a row" }}
      />
    </MantineProvider>,
  );
  expect(screen.getByRole("alert")).toHaveTextContent("3 failures in a row");
  expect(screen.getByTestId("node-health")).not.toHaveTextContent("in a row could not be");
});

test.each([
  ["reserved", "Online · reserved for others"],
  ["maintenance", "Online · in maintenance"],
  [null, "Online"],
])("free slots that nobody gets are not shown as free: %s", (unavailable, said) => {
  const node = {
    state: "ONLINE",
    state_reason: "",
    state_parts: [],
    scheduling: "open",
    health: "ok",
    health_reason: "",
  };
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <NodeState node={{ ...node, unavailable } as unknown as Parameters<typeof NodeState>[0]["node"]} />
    </MantineProvider>,
  );
  expect(document.body).toHaveTextContent(new RegExp(`${said}$`));
});
