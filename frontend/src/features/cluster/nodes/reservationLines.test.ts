import { expect, test } from "vitest";

import type { NodeReservation } from "../../../api/queries";
import { lengthOf, reservationLines } from "./reservationLines";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const at = (hours: number): string => new Date(NOW + hours * 3_600_000).toISOString();
const one = (id: number, from: number, to: number, ...nodes: string[]): NodeReservation =>
  ({ id, starts_at: at(from), ends_at: at(to), nodes }) as NodeReservation;

test("every node has a line, and what has begun starts at the left edge", () => {
  const { lines } = reservationLines([one(1, -5, 5, "b", "a"), one(2, 5, 10, "b")], NOW, "utc");
  const seen = lines.map(({ name, bars }) => [name, ...bars.map((bar) => [bar.reservation.id, bar.left, bar.width])]);
  expect(seen).toEqual([
    ["a", [1, 0, 50]],
    ["b", [1, 0, 50], [2, 50, 50]],
  ]);
});

test("ticks are few, at full steps of the zone, with the date where a day is not enough", () => {
  const ticks = (hours: number) =>
    reservationLines([one(1, 0, hours, "a")], NOW, "utc").ticks.map(({ label }) => label);
  expect(ticks(0.5)).toEqual(["12:00"]);
  expect(ticks(5)).toEqual(["12:00", "13:00", "14:00", "15:00", "16:00"]);
  expect(ticks(30)).toEqual(["03-01 12:00", "03-01 18:00", "03-02 00:00", "03-02 06:00", "03-02 12:00"]);
  expect(ticks(24 * 30)).toEqual(["03-05", "03-12", "03-19", "03-26"]);
  for (const hours of [1, 7, 100, 5000, 87_600]) expect(ticks(hours).length).toBeLessThanOrEqual(7);
});

test("nothing reserved, nothing drawn", () => {
  expect(reservationLines([], NOW, "utc").lines).toEqual([]);
});

test("a length is shown as it may be typed", () => {
  const length = (ends_at: string): string => lengthOf({ starts_at: "2026-03-01T18:00:00Z", ends_at });
  expect(length("2026-03-02T02:00:00.4Z")).toBe("8h");
  expect(length("2026-03-03T06:01:05Z")).toBe("1d12h1min5s");
});
