import { expect, test } from "vitest";

import { draftOf, parseDraft } from "./budget";
import { asOverride, forkFrom, overrideOf, startOf } from "./forking";

test("a budget survives the form", () => {
  const limit = {
    unit: "",
    spent: 1,
    share: 0.1,
    alerts_given: [],
    exhausted: false,
    exhausted_at: null,
    limit_at: null,
  };
  const budget = {
    limits: [
      { ...limit, measure: "slot_hours" as const, limit: 12.5 },
      { ...limit, measure: "deadline" as const, limit: 3, limit_at: "2026-03-01T18:00:00Z" },
    ],
    alert_at: [0.5, 0.995],
    exhausted_reason: "",
    exhausted_parts: [],
  };
  const draft = draftOf(budget);
  expect(draft.alertAt).toBe("50, 99.5");
  expect(parseDraft(draft)).toEqual({
    ok: true,
    body: { slot_hours: 12.5, cost: undefined, deadline: "2026-03-01T18:00:00Z", alert_at: [0.5, 0.995] },
  });
});

test("an empty form is no budget, and a wrong threshold is named", () => {
  expect(parseDraft({ slotHours: "", cost: "", deadline: " ", alertAt: "50" })).toEqual({ ok: true, body: null });
  expect(parseDraft({ slotHours: 1, cost: "", deadline: "", alertAt: "50 %，120" })).toEqual({
    ok: false,
    wrong: "120",
  });
  expect(parseDraft({ slotHours: 1, cost: "", deadline: "", alertAt: "" })).toMatchObject({
    ok: true,
    body: { alert_at: [] },
  });
});

test("what a fork starts from is in the address and in an override", () => {
  expect(startOf("latest")).toBe("latest");
  expect(startOf("57")).toBe(57);
  expect(startOf("-1")).toBe("");
  expect(startOf(undefined)).toBe("");
  expect(forkFrom(12, "", "all")).toBeNull();
  expect(asOverride(forkFrom(12, "best", "weights"))).toEqual([
    'from={"experiment":12,"pick":"best","load":"weights"}',
  ]);
  expect(forkFrom(12, 57, "all")).toEqual({ checkpoint: 57, pick: "latest", load: "all" });
  expect(overrideOf('checkpoints.every={"steps":120}')).toBe('checkpoints.every={"steps":120}');
  for (const no of [undefined, "seed", "=1", "a..b=1", `seed=${"1".repeat(501)}`])
    expect(overrideOf(no)).toBeUndefined();
});
