// @vitest-environment node
import { expect, test } from "vitest";

import type { Goodput } from "../../../api/queries";
import { everyDay } from "./days";

test("a day without slots has its place in the trend", () => {
  const trend: Goodput["trend"] = [
    { day: "2026-02-28", allocated_s: 3, classes: { productive: 3 } },
    { day: "2026-03-02", allocated_s: 1, classes: { idle: 1 } },
  ];
  expect(everyDay({ since: "2026-02-28", days: 4, trend })).toEqual([
    { day: "2026-02-28", classes: { productive: 3 } },
    { day: "2026-03-01", classes: {} },
    { day: "2026-03-02", classes: { idle: 1 } },
    { day: "2026-03-03", classes: {} },
  ]);
});
