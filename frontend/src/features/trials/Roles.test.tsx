import { MantineProvider } from "@mantine/core";
import { createMemoryHistory, createRootRoute, createRouter, RouterContextProvider } from "@tanstack/react-router";
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, beforeAll, expect, test } from "vitest";

import type { TrialDetail } from "../../api/queries";
import { showTexts } from "../../testing/texts";
import { Roles } from "./Roles";

beforeAll(() => showTexts("en"));
afterEach(cleanup);

const member: TrialDetail["members"][number] = {
  name: "rollout/1",
  role: "rollout",
  index: 1,
  node_name: "n2",
  state: "RUNNING",
  num_slots: 1,
  ranks: [3],
  address: "10.0.0.2:21001",
  on_end: "wait",
  on_failure: "restart",
  message: "started again 1 of 3 times",
  exit: "",
};

function show(members: TrialDetail["members"]): void {
  const router = createRouter({ routeTree: createRootRoute(), history: createMemoryHistory() });
  render(
    <MantineProvider>
      <RouterContextProvider router={router}>
        <Roles trial={{ id: 4, attempt_no: 1, members } as unknown as TrialDetail} />
      </RouterContextProvider>
    </MantineProvider>,
  );
}

test("says of each member where it is, what follows from its end, and how often it was started again", () => {
  show([member]);
  const row = within(screen.getByTestId("roles")).getByText("rollout/1").closest("tr");
  expect(row?.textContent).toContain("n2");
  expect(row?.textContent).toContain("10.0.0.2:21001");
  expect(row?.textContent).toContain("Restarts alone");
  expect(row?.textContent).toContain("started again 1 of 3 times");
});

test("shows nothing of a gang of one kind", () => {
  show([]);
  expect(screen.queryByTestId("roles")).toBeNull();
});
