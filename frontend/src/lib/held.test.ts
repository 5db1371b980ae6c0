import i18next from "i18next";
import { beforeAll, expect, test } from "vitest";

import { showTexts } from "../testing/texts";
import { shownState, slotsText } from "./held";

beforeAll(() => showTexts("en"));

const item = {
  state: "RUNNING",
  num_trials_by_state: { RUNNING: 1 },
  num_slots_held: 4,
  slots_per_trial: 4,
  slot_type: "cpu",
  only_trial_id: 7,
  unmanaged: null,
  is_doubtful: false,
};

test("an experiment waits while it goes on and none of its trials runs", () => {
  expect(shownState({ ...item, state: "RUNNING", num_trials_by_state: { RUNNING: 1, QUEUED: 3 } })).toBe("RUNNING");
  expect(shownState({ ...item, state: "RUNNING", num_trials_by_state: { STARTING: 1 } })).toBe("RUNNING");
  expect(shownState({ ...item, state: "RUNNING", num_trials_by_state: { QUEUED: 3, COMPLETED: 9, RUNNING: 0 } })).toBe(
    "WAITING",
  );
  expect(shownState({ ...item, state: "QUEUED", num_trials_by_state: { QUEUED: 3 } })).toBe("QUEUED");
  expect(shownState({ ...item, state: "COMPLETED", num_trials_by_state: { COMPLETED: 3 } })).toBe("COMPLETED");
  expect(shownState({ ...item, state: "COMPLETED", is_doubtful: true })).toBe("DOUBTFUL");
});

test("slots in words are those that are held, beside those that are asked for", () => {
  const words = (
    changes: Partial<Omit<typeof item, "only_trial_id" | "unmanaged">> & { only_trial_id?: null; unmanaged?: string },
  ): string => slotsText(i18next.t, { ...item, ...changes });
  expect(words({})).toBe("4 cpu");
  expect(words({ num_slots_held: 1 })).toBe("1 of 4 cpu");
  expect(words({ only_trial_id: null, num_slots_held: 12 })).toBe("12 cpu (4 each)");
  expect(words({ only_trial_id: null, num_slots_held: 0 })).toBe("0 cpu (4 each)");
  expect(words({ state: "COMPLETED", num_slots_held: 0 })).toBe("4 cpu");
  expect(words({ state: "QUEUED", num_slots_held: 0 })).toBe("4 cpu");
  expect(words({ unmanaged: "mlflow", num_slots_held: 0 })).toBe("–");
});
