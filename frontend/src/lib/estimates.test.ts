import { expect, test } from "vitest";

import { estimates, rangeText } from "./estimates";

test("the ends of an interval are with their metric", () => {
  const found = estimates({ accuracy: 0.8667, accuracy_low: 0.8093, accuracy_high: 0.9087, log_loss: 0.4 });
  expect(found.map(({ name }) => name)).toEqual(["accuracy", "log_loss"]);
  expect(found.map(rangeText)).toEqual(["[0.8093, 0.9087]", ""]);
});

test("a metric that is only called like an end stays", () => {
  expect(estimates({ shelf_low: 1, accuracy: null, accuracy_low: 0.1 })).toEqual([
    { name: "shelf_low", value: 1 },
    { name: "accuracy", value: null },
  ]);
});
