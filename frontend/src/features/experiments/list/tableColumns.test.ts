import { expect, test } from "vitest";

import {
  added,
  columnsFor,
  groupCondition,
  holdsNumbers,
  labelsOf,
  moved,
  nextSort,
  readColumns,
  readConditions,
  removed,
  resized,
  sortOf,
  toggled,
  valueLabel,
  valuesOf,
  writeColumns,
  writeConditions,
} from "./tableColumns";

/** Of a screen of 1,440 px: what the menu, the margins and the boxes to tick leave. */
const TABLE_PX = 1440 - 208 - 64 - 30;
const ids = (text: string | undefined) => readColumns(text).map(({ id }) => id);

test("without an address the first columns stand there, and need none", () => {
  expect(ids(undefined)[0]).toBe("name");
  expect(writeColumns(readColumns(undefined))).toBeUndefined();
});

test("any column comes back from the address, whatever its name holds", () => {
  const odd = "metric.last.a,b:c%2Cd";
  const text = writeColumns(resized(added(readColumns("name,state"), odd), odd, 200));
  expect(text).toMatch(/^name,state,/);
  expect(readColumns(text)).toEqual([
    { id: "name", width: 204 },
    { id: "state", width: 112 },
    { id: odd, width: 200 },
  ]);
});

test("what is no column is left out, and the name never is", () => {
  expect(ids("state,nonsense,metric.mean.x,state,hparam.lr")).toEqual(["name", "state", "hparam.lr"]);
  expect(removed(readColumns("name,state"), "name").map(({ id }) => id)).toEqual(["name", "state"]);
  expect(ids(writeColumns(removed(readColumns("name,state"), "state")))).toEqual(["name"]);
});

test("columns move by one place and stay inside", () => {
  const columns = readColumns("name,state,best");
  expect(moved(columns, "best", -1).map(({ id }) => id)).toEqual(["name", "best", "state"]);
  expect(moved(columns, "name", -1)).toEqual(columns);
  expect(moved(columns, "best", 1)).toEqual(columns);
});

test("on a laptop's screen, all columns that come by themselves are seen whole, and the name has the most room", () => {
  const rows = [
    { owner: "ada", state: "RUNNING" },
    { owner: "grace", state: "QUEUED" },
  ];
  const columns = columnsFor(undefined, rows);
  const others = columns.filter(({ id }) => id !== "name").reduce((sum, { width }) => sum + width, 0);
  expect(TABLE_PX - others).toBeGreaterThan(Math.max(...columns.map(({ width }) => width)));
});

test("widths stay within reason", () => {
  expect(resized(readColumns("name"), "name", 1)[0]?.width).toBe(60);
  expect(readColumns("name:1e9")[0]?.width).toBe(900);
  expect(readColumns("name:x")[0]?.width).toBe(204);
});

test("only values are asked for, and what has an order is sorted by the server", () => {
  expect(valuesOf(readColumns("name,config.a.b,metric.last.loss"))).toEqual(["config.a.b", "metric.last.loss"]);
  expect([sortOf("labels"), sortOf("searcher"), sortOf("hparam.lr")]).toEqual([
    null,
    "config.search.method",
    "hparam.lr",
  ]);
});

test("a head goes through both directions and back", () => {
  expect(nextSort(undefined, "best", true)).toBe("-best");
  expect(nextSort("-best", "best", true)).toBe("best");
  expect(nextSort("best", "best", true)).toBeUndefined();
  expect(nextSort("-best", "name", false)).toBe("name");
});

test("what a column holds is unknown until its values come", () => {
  const lr = (value: unknown) => ({ values: { "hparam.lr": value } });
  expect(holdsNumbers("hparam.lr", [{}, { values: {} }])).toBeNull();
  expect(holdsNumbers("hparam.lr", [lr(null), lr(0.1)])).toBe(true);
  expect(holdsNumbers("hparam.lr", [lr("auto")])).toBe(false);
  expect(holdsNumbers("hparam.lr", [lr(null)])).toBe(false);
  expect([holdsNumbers("metric.last.loss", []), holdsNumbers("slots", []), holdsNumbers("owner", [])]).toEqual([
    true,
    true,
    false,
  ]);
});

test("a value is called by what tells it apart", () => {
  expect(valueLabel("metric.best.val/a.b")).toEqual({ what: "val/a.b", of: "best" });
  expect(valueLabel("config.resources.slots")).toEqual({ what: "resources.slots", of: "config" });
});

test("conditions and labels come back from the address", () => {
  expect(readConditions(writeConditions(["slots > 2", "metric.last.a,b < 1"]))).toEqual([
    "slots > 2",
    "metric.last.a,b < 1",
  ]);
  expect(writeConditions([])).toBeUndefined();
  expect(labelsOf(toggled(labelsOf("a=1"), "b"))).toEqual(["a=1", "b"]);
  expect(toggled(["a=1"], "a=1")).toBeUndefined();
});

test("without an address, who owns them and how far they are is shown where it tells rows apart", () => {
  const row = { owner: "ada", state: "COMPLETED" };
  const shown = (...items: (typeof row)[]) => columnsFor(undefined, items).map(({ id }) => id);
  expect(shown(row)).not.toContain("owner");
  expect(shown(row)).not.toContain("progress");
  expect(shown(row, { ...row, owner: "bob" }).slice(-2)).toEqual(["owner", "created"]);
  expect(shown(row, { ...row, state: "RUNNING" })).toContain("progress");
  expect(columnsFor("name,progress", [row]).map(({ id }) => id)).toEqual(["name", "progress"]);
});

test("a group is found again by a condition", () => {
  expect(groupCondition("hparam.lr", 0.1)).toBe("hparam.lr = 0.1");
  expect(groupCondition("label.team", "a b")).toBe("label.team = a b");
  expect(groupCondition("label.team", null)).toBe("label.team is missing");
  for (const value of ["a\nb", "NaN", " x", ""]) expect(groupCondition("config.notes", value)).toBeNull();
});
