import { expect, test } from "vitest";

import { shownIds, toggledId } from "./columns";

const COLUMNS = [
  { id: "name", lead: true },
  { id: "state" },
  { id: "agent", extra: true as const },
  { id: "actions", quiet: true as const },
];

test("a column is shown unless it was hidden, an extra one when it was asked for", () => {
  expect([...shownIds(COLUMNS, null)]).toEqual(["name", "state", "actions"]);
  const kept = toggledId(toggledId(null, "state"), "agent");
  expect([...shownIds(COLUMNS, kept)]).toEqual(["name", "agent", "actions"]);
});

test("the name and the actions stay, whatever is kept", () => {
  expect([...shownIds(COLUMNS, "name,actions,nonsense")]).toEqual(["name", "state", "actions"]);
});

test("what is as by default is not kept", () => {
  expect(toggledId("state", "state")).toBeNull();
  expect(toggledId("state,agent", "state")).toBe("agent");
});
