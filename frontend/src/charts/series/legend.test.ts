import { describe, expect, test } from "vitest";

import { pointAt } from "./legend";

describe("the legend at the cursor", () => {
  const steps = [10, 20, 182];

  test("a value where the line has this very step", () => {
    expect(pointAt(steps, 1, 20, "step")).toEqual({ index: 1, isThere: true });
    expect(pointAt(steps, 1, null, "step")).toEqual({ index: 2, isThere: true });
  });

  test("a run that has ended is not there any more, nor one that reports more rarely", () => {
    expect(pointAt(steps, 1, 276, "step")).toEqual({ index: 2, isThere: false });
    expect(pointAt(steps, 1, 21, "step")).toEqual({ index: 1, isThere: false });
  });

  test("nothing before its first point, and nothing of an empty line", () => {
    expect(pointAt(steps, 1, 9, "step")).toBeNull();
    expect(pointAt([], 1, 9, "step")).toBeNull();
    expect(pointAt([], 1, null, "step")).toBeNull();
  });

  test("a bucket is there for each of its steps", () => {
    expect(pointAt([0, 8, 16], 8, 15, "step")).toEqual({ index: 1, isThere: true });
    expect(pointAt([0, 8, 16], 8, 24, "step")).toEqual({ index: 2, isThere: false });
  });

  test("times of two runs are never the same: there is a value from the first to the last", () => {
    expect(pointAt([0.5, 1.5, 2.5], 1, 2.1, "relative")).toEqual({ index: 1, isThere: true });
    expect(pointAt([0.5, 1.5, 2.5], 1, 2.5, "relative")).toEqual({ index: 2, isThere: true });
    expect(pointAt([0.5, 1.5, 2.5], 1, 2.6, "relative")).toEqual({ index: 2, isThere: false });
  });
});
