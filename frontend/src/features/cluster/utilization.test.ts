import { expect, test } from "vitest";

import { area, firstJoined, fromFirstKnown, instants, meanShare, slotsOf, usualPeriod } from "./utilization";

test("an area goes up and down in steps, full slots at the top", () => {
  expect(area([0, 4, 2], 30, 40, 4)).toBe("M0.0 40V40.0H10.0V0.0H20.0V20.0H30.0V40Z");
});

test("what is not known leaves a gap", () => {
  expect(area([null, 4, null, 4], 40, 40, 4)).toBe("M10.0 40V0.0H20.0V40ZM30.0 40V0.0H40.0V40Z");
  expect(area([null], 40, 40, 4)).toBe("");
});

test("more than there are slots now stays inside", () => {
  expect(area([8], 10, 40, 4)).toBe("M0.0 40V0.0H10.0V40Z");
});

test("ticks stand at round times of the local clock", () => {
  const hour = 3_600_000;
  expect(instants(hour / 2, 6.5 * hour, 0)).toEqual([1, 2, 3, 4, 5, 6].map((n) => n * hour));
  expect(instants(0, 24 * hour, hour / 2)).toEqual([3.5, 7.5, 11.5, 15.5, 19.5, 23.5].map((n) => n * hour));
  expect(instants(0, 3.5 * 60_000, 0)).toEqual([0, 1, 2, 3].map((n) => n * 60_000));
  expect(instants(hour, 169 * hour, 0)).toHaveLength(7);
});

test("what was before the first node is not drawn", () => {
  const pool = (held: (number | null)[]) => ({
    pool: "default",
    slot_type: "cpu",
    num_slots: 4,
    num_slots_used: 0,
    held,
  });
  const data = (...pools: ReturnType<typeof pool>[]) => ({
    bucket_s: 60,
    times: ["a", "b", "c", "d", "e", "f"],
    complete_since: null,
    pools,
  });
  const young = fromFirstKnown(data(pool([null, null, null, null, null, 1])));
  expect(young.times).toEqual(["c", "d", "e", "f"]);
  expect(young.pools[0]?.held).toEqual([null, null, null, 1]);
  const two = fromFirstKnown(data(pool([null, null, null, null, null, 1]), pool([null, 2, 2, 2, 2, 2])));
  expect(two.pools.map(({ held }) => held.length)).toEqual([5, 5]);
  for (const whole of [data(pool([0, 1, 1, 1, 1, 1])), data(pool([null, null, null, null, null, null])), data()])
    expect(fromFirstKnown(whole)).toBe(whole);
});

test("the mean is over what is known", () => {
  expect(meanShare([null, 1, 3], 4)).toBe(0.5);
  expect(meanShare([null], 4)).toBeNull();
  expect(meanShare([1], 0)).toBeNull();
});

test("the slots in use now are those of the cluster, not of a history asked for earlier", () => {
  const lane = { pool: "default", slot_type: "cpu", held: [0, 0] };
  const now = { pool: "default", slot_type: "cpu", num_slots: 4, num_slots_used: 2, num_slots_free: 2 };
  expect(slotsOf([{ ...now, pool: "big" }, now], lane)).toBe(now);
  expect(slotsOf([], lane).num_slots).toBe(0);
});

test("a young cluster is shown closer", () => {
  const hour = 3_600_000;
  expect([0.1, 1, 3, 6, 20, 400].map((age) => usualPeriod(0, age * hour))).toEqual([1, 1, 6, 6, 24, 24]);
  expect(usualPeriod(null, 0)).toBe(24);
  expect(firstJoined([{ joined_at: "2026-02-01T00:00:00Z" }, { joined_at: "2026-01-01T00:00:00Z" }])).toBe(
    "2026-01-01T00:00:00Z",
  );
  expect(firstJoined([])).toBeNull();
});
