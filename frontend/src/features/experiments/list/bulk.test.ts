// @vitest-environment node
import { expect, test } from "vitest";

import { bulkBody, grouped, leavesOut, parseLabels } from "./bulk";

const item = (id: number, outcome: "changes" | "unchanged" | "refused", code: string | null = null) => ({
  id,
  name: `e${id}`,
  state: "RUNNING",
  outcome,
  code,
  message: "",
});

test("what happens comes first, refusals by reason, the commonest first", () => {
  const groups = grouped([
    item(1, "refused", "a"),
    item(2, "refused", "b"),
    item(3, "unchanged"),
    item(4, "refused", "b"),
    item(5, "changes"),
  ]);
  expect(groups.map((g) => [g.outcome, g.code, g.items.map((i) => i.id)])).toEqual([
    ["changes", null, [5]],
    ["unchanged", null, [3]],
    ["refused", "b", [2, 4]],
    ["refused", "a", [1]],
  ]);
});

test("a selection is sent as the ids or as the filter of the list, never as both", () => {
  expect(bulkBody("stop", { kind: "ids", ids: [3, 1] })).toEqual({
    action: "stop",
    ids: [3, 1],
    keep_files: false,
    set_labels: {},
    remove_labels: [],
  });
  const all = bulkBody(
    "delete",
    { kind: "filter", filter: { state: ["FAILED"], q: "", archived: true }, num: 9 },
    { keepFiles: true },
  );
  expect(all).toEqual({
    action: "delete",
    filter: { state: ["FAILED"], project: undefined, q: undefined, label: [], archived: "include", where: [] },
    keep_files: true,
    set_labels: {},
    remove_labels: [],
  });
  expect(leavesOut({ archived: true })).toBe(false);
  expect(leavesOut({ q: "digits" })).toBe(true);
  expect(leavesOut({ label: ["team=vision"] })).toBe(true);
  expect(bulkBody("archive", { kind: "filter", filter: { label: ["team=vision"] }, num: 1 })).toMatchObject({
    filter: { label: ["team=vision"] },
  });
});

test("labels are typed as name=value or as a name", () => {
  expect(parseLabels("team=vision, urgent，note = a=b")).toEqual({ team: "vision", urgent: "", note: "a=b" });
  expect(parseLabels(" ")).toEqual({});
  expect(parseLabels("=x")).toBeNull();
});
