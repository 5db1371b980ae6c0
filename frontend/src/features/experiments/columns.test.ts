// @vitest-environment node
import { expect, test } from "vitest";

import { hiddenOf, labelsOf, labelText, toggled } from "./columns";

test("the address says which columns are left out", () => {
  expect(hiddenOf("owner,slots,nonsense")).toEqual(["slots", "owner"]);
  expect(hiddenOf(undefined)).toEqual([]);
  expect(toggled(["slots"], "owner")).toBe("slots,owner");
  expect(toggled(["slots"], "slots")).toBeUndefined();
});

test("labels are looked for with their value, or by name", () => {
  expect(labelsOf("team=vision,urgent")).toEqual(["team=vision", "urgent"]);
  expect(labelsOf(undefined)).toEqual([]);
  expect(labelText("team", "vision")).toBe("team=vision");
  expect(labelText("urgent", "")).toBe("urgent");
});
