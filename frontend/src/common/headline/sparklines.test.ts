import { expect, test } from "vitest";

import { polyline } from "./sparklines";

test("a curve fills its box, the greatest value at the top", () => {
  expect(polyline([4, 2, 0], 60, 16)).toBe("0.0,0.0 30.0,8.0 60.0,16.0");
});

test("a constant curve is a line in the middle", () => {
  expect(polyline([3, 3], 60, 16)).toBe("0.0,8.0 60.0,8.0");
});

test("a single value is no curve", () => {
  expect(polyline([3], 60, 16)).toBe("");
  expect(polyline([], 60, 16)).toBe("");
});
