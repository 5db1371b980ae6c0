import { expect, test } from "vitest";

import { occurrences, parsePlace } from "./logPlace";

const NEAR = Date.UTC(2026, 10, 21, 12, 0, 0);

test("a line, a part, a time", () => {
  expect(parsePlace("1", "utc", NEAR)).toEqual({ no: 0 });
  expect(parsePlace(" 1,200,000 ", "utc", NEAR)).toEqual({ no: 1_199_999 });
  expect(parsePlace("50%", "utc", NEAR)).toEqual({ fraction: 0.5 });
  expect(parsePlace("14:05", "utc", NEAR)).toEqual({ time: "2026-11-21T14:05:00.000Z" });
  expect(parsePlace("2026-11-20 04:05:06", "utc", NEAR)).toEqual({ time: "2026-11-20T04:05:06.000Z" });
  expect(parsePlace("2026-11-20 04:05", "local", NEAR)).toEqual({ time: new Date(2026, 10, 20, 4, 5).toISOString() });
});

test.each(["", "0", "x", "101%", "25:00", "12:60", "2026-02-31 10:00", "-5", "1,2"])("%j is no place", (text) => {
  expect(parsePlace(text, "utc", NEAR)).toBeNull();
});

test("text is found in any case", () => {
  expect(occurrences("Loss loss", "LOSS")).toEqual([
    [0, 4],
    [5, 9],
  ]);
  expect(occurrences("aaa", "")).toEqual([]);
  expect(occurrences("İx", "x")).toEqual([]);
});
