// @vitest-environment node
import { describe, expect, test } from "vitest";

import {
  age,
  axis,
  axisTicks,
  BYTE_STEPS,
  bytes,
  count,
  duration,
  elapsed,
  fromWire,
  metric,
  ms,
  nameUnits,
  num,
  pct,
  si,
  unitOf,
} from "./format";

describe("numbers", () => {
  test("four significant digits, scientific at the ends", () => {
    expect(num(0.123456)).toBe("0.1235");
    expect(num(0.00012345)).toBe("0.0001234");
    expect(num(0.00001)).toBe("1e−5");
    expect(num(1234567)).toBe("1.235e6");
    expect(num(-2.5)).toBe("−2.5");
    expect(num(12345)).toBe("12345");
    expect(num(0)).toBe("0");
  });
  test("what is missing or not finite says so", () => {
    expect(num(null)).toBe("–");
    expect(num("NaN")).toBe("NaN");
    expect(num("Infinity")).toBe("∞");
    expect(num("-Infinity")).toBe("−∞");
    expect(fromWire("-Infinity")).toBe(Number.NEGATIVE_INFINITY);
    expect(ms("NaN")).toBe("NaN");
  });
  test("units", () => {
    expect(si(1234567, "B")).toBe("1.235 MB");
    expect(si(999, "/s")).toBe("999 /s");
    expect(bytes(1536)).toBe("1.5 KiB");
    expect(bytes(512)).toBe("512 B");
    expect(pct(0.3141)).toBe("31%");
    expect(pct(0.0314)).toBe("3.1%");
    expect(pct(0)).toBe("0%");
    expect(ms(0.8166)).toBe("0.817 ms");
    expect(ms(38_240)).toBe("38.2 s");
    expect(ms(8_040_000)).toBe("2 h 14 min");
    expect(count(12340)).toBe("12,340");
  });
  test("durations", () => {
    expect(duration(38)).toBe("38 s");
    expect(duration(245)).toBe("4 min 5 s");
    expect(duration(8040)).toBe("2 h 14 min");
    expect(duration(273_600)).toBe("3 d 4 h");
    expect(duration(7200)).toBe("2 h");
    expect(duration(-1)).toBe("0 s");
    expect(duration(null)).toBe("–");
    expect([0, 38, 245, 8040, 273_600].map(age)).toEqual(["0 s", "38 s", "4 min", "2 h", "3 d"]);
    expect([0, 0.875, 1.9, 61].map(elapsed)).toEqual(["0 s", "0.9 s", "1 s", "1 min 1 s"]);
    expect(elapsed(null)).toBe("–");
    nameUnits({ s: "秒", min: "分钟", h: "小时", d: "天" });
    expect([duration(8040), age(8040), elapsed(0.875), ms(38_240)]).toEqual([
      "2 小时 14 分钟",
      "2 小时",
      "0.9 秒",
      "38.2 秒",
    ]);
    nameUnits({});
  });
});

test("bytes have binary prefixes in values and on axes, also by second", () => {
  expect(metric("network/sent_bytes_per_s", 3 * 2 ** 20)).toBe("3 MiB/s");
  expect(metric("network/sent_bytes_per_s", null)).toBe("–");
  expect(axisTicks("network/sent_bytes_per_s", [0, 2 ** 24, 2 ** 25], 2 ** 24)).toEqual([
    "0 B/s",
    "16 MiB/s",
    "32 MiB/s",
  ]);
  expect(axisTicks("cpu/memory_used_bytes", [2.5 * 2 ** 30, 3 * 2 ** 30], 2 ** 29)).toEqual(["2.5 GiB", "3 GiB"]);
  expect(BYTE_STEPS.at(-1)).toBe(512 * 2 ** 40);
});

describe("metrics by name", () => {
  test("the name's end decides the unit", () => {
    expect(unitOf("comm/exposed_ms")).toBe("ms");
    expect(unitOf("throughput/samples_per_s_rank")).toBe("perS");
    expect(unitOf("memory/rss_bytes")).toBe("bytes");
    expect(unitOf("comm/overhead_ratio")).toBe("ratio");
    expect(unitOf("train/loss")).toBe("none");
    expect(unitOf("loss")).toBe("none");
  });
  test("values carry it", () => {
    expect(metric("time/step_ms", 412)).toBe("412 ms");
    expect(metric("comm/overhead_ratio", 0.31)).toBe("31%");
    expect(metric("train/loss", "NaN")).toBe("NaN");
  });
  test("neighbouring ticks differ", () => {
    expect(axis("train/lr", 0.0009995, 0.0000005)).not.toBe(axis("train/lr", 0.001, 0.0000005));
    expect(axis("throughput/samples_per_s", 12000)).toBe("12 k");
    expect(axis("params", 1e19)).toBe("1e19");
  });
  test("no tick says what the one before says", () => {
    expect(axisTicks("memory/rss_bytes", [546_800, 547_000, 547_200], 200)).toEqual([
      "533.98 KiB",
      "534.18 KiB",
      "534.38 KiB",
    ]);
    expect(axisTicks("comm/bytes", [0, 0.25, 0.5, 0.75, 1], 0.25)).toEqual(["0 B", "", "1 B", "", ""]);
  });
});
