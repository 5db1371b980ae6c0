import { describe, expect, it } from "vitest";

import type { MaintenanceWindow } from "../../api/queries";
import { dismissalKey, toAnnounce } from "./maintenance";

const NOW = Date.parse("2026-12-01T12:00:00Z");
const HOUR = 3_600_000;
const at = (ms: number): string => new Date(NOW + ms).toISOString();
const window = (id: number, starts: number, ends: number | null, is_active = false): MaintenanceWindow => ({
  id,
  starts_at: at(starts),
  ends_at: ends === null ? null : at(ends),
  is_active,
  pools: [],
  nodes: [],
  reason: "new switch",
  running: "checkpoint",
  created_by: "ann",
  created_at: at(-HOUR),
  ended_at: null,
  ended_by: "",
});

describe("what everybody is told of", () => {
  it("is what is active, and what starts within a day", () => {
    const windows = [window(1, -HOUR, null, true), window(2, 23 * HOUR, 25 * HOUR), window(3, 25 * HOUR, null)];
    expect(toAnnounce(windows, new Set(), NOW).map(({ id }) => id)).toEqual([1, 2]);
  });

  it("follows the clock between two answers of the server", () => {
    const found = window(1, HOUR, 2 * HOUR);
    const seen = [0, 1, 2].map((hours) => toAnnounce([found], new Set(), NOW + hours * HOUR));
    expect(seen.map((list) => list.map(({ is_active }) => is_active))).toEqual([[false], [true], []]);
  });

  it("leaves out planned ones that were dismissed, until they begin", () => {
    const found = window(7, HOUR, null);
    const dismissed = new Set([dismissalKey(found)]);
    expect(toAnnounce([found], dismissed, NOW)).toEqual([]);
    expect(toAnnounce([found], dismissed, NOW + HOUR)).toHaveLength(1);
  });
});
