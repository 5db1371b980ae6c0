/**
 * Every number the dashboard shows passes here: four significant digits, an explicit unit, one look.
 * Pure; the language only matters for words, which live in i18n.
 */

/** A number as the API sends it: not finite ones are strings. */
export type WireNumber = number | "NaN" | "Infinity" | "-Infinity";

export const MISSING = "–";

/** The value behind a wire number; null stays null. */
export function fromWire(value: WireNumber | null | undefined): number | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "number") return value;
  if (value === "NaN") return Number.NaN;
  return value === "Infinity" ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
}

function notFinite(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  return value > 0 ? "∞" : "−∞";
}

const minus = (text: string): string => text.replace(/^-/, "−").replace("e-", "e−");

/** Four significant digits; scientific below 1e-4 and from 1e6. */
export function num(input: WireNumber | null | undefined, digits = 4): string {
  const value = fromWire(input);
  if (value === null) return MISSING;
  if (!Number.isFinite(value)) return notFinite(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e6) {
    return minus(
      value
        .toExponential(digits - 1)
        .replace(/\.?0+e/, "e")
        .replace("e+", "e"),
    );
  }
  if (Number.isInteger(value) && size < 1e6) return minus(String(value));
  return minus(Number(value.toPrecision(digits)).toString());
}

const COUNT = new Intl.NumberFormat("en-US"); // toLocaleString makes one at each call, which takes 0.1 ms

/** A count with thousands separators: 12,340. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return MISSING;
  return COUNT.format(Math.round(value));
}

const SI: readonly [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** 1234567 → "1.235 M" (+ unit, "1.235 MB"). */
export function si(input: WireNumber | null | undefined, unit = "", digits = 4): string {
  const value = fromWire(input);
  if (value === null) return MISSING;
  if (!Number.isFinite(value)) return notFinite(value);
  const size = Math.abs(value);
  // Beyond the last prefix a number would have an exponent and a prefix.
  if (size >= 1e15) return unit ? `${num(value, digits)} ${unit}` : num(value, digits);
  for (const [factor, prefix] of SI) {
    if (size >= factor) return `${num(value / factor, digits)} ${prefix}${unit}`;
  }
  return unit ? `${num(value, digits)} ${unit}` : num(value, digits);
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

export function bytes(input: WireNumber | null | undefined, digits = 3): string {
  let value = fromWire(input);
  if (value === null) return MISSING;
  if (!Number.isFinite(value)) return notFinite(value);
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : num(value, digits)} ${BINARY[unit]}`;
}

/** A ratio 0..1 as a percentage; one decimal below 10%. */
export function pct(input: WireNumber | null | undefined): string {
  const value = fromWire(input);
  if (value === null) return MISSING;
  if (!Number.isFinite(value)) return notFinite(value);
  const percent = value * 100;
  const text = Math.abs(percent) < 10 ? percent.toFixed(1) : percent.toFixed(0);
  return `${minus(text.replace(/\.0$/, ""))}%`;
}

/** Milliseconds for a person: "0.82 ms", "412 ms", "38.2 s", "2 h 14 min" from a minute on. */
export function ms(input: WireNumber | null | undefined): string {
  const value = fromWire(input);
  if (value === null) return MISSING;
  if (!Number.isFinite(value)) return notFinite(value);
  const size = Math.abs(value);
  if (size < 1000) return `${num(value, 3)} ms`;
  if (size < 60_000) return inUnit(num(value / 1000, 3), "s");
  return duration(value / 1000);
}

/** Units of a duration, the largest first, with their length in seconds. */
const DURATIONS = [
  ["d", 86_400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
] as const;
export type DurationUnit = (typeof DURATIONS)[number][0];

let unitNames: Partial<Record<DurationUnit, string>> = {};
/** Call the units of durations by these names; those without one are called as in English. */
export function nameUnits(names: Partial<Record<DurationUnit, string>>): void {
  unitNames = names;
}
const inUnit = (value: number | string, unit: DurationUnit): string => `${value} ${unitNames[unit] ?? unit}`;

/** Distances in seconds between the ticks of an axis of durations; below one second as of any number. */
export const DURATION_STEPS_S = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  10_800, 21_600, 43_200, 86_400, 172_800, 432_000, 864_000, 1_728_000, 4_320_000, 8_640_000,
];

/** Seconds in at most two units: "38 s", "4 min 5 s", "2 h 14 min", "3 d 4 h"; below 0 as "0 s". */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return MISSING;
  const whole = Math.max(0, Math.floor(seconds));
  const first = DURATIONS.findIndex(([, size]) => whole >= size);
  if (first < 0) return inUnit(0, "s");
  let rest = whole;
  const parts = DURATIONS.slice(first, first + 2).map(([unit, size]) => {
    const many = Math.floor(rest / size);
    rest -= many * size;
    return many > 0 ? inUnit(many, unit) : "";
  });
  return parts.filter(Boolean).join(" ");
}

/** How long ago something was, in one unit: "38 s", "4 min", "2 h". It changes seldom, and a column of it can be scanned. */
export function age(seconds: number): string {
  const [unit, size] = DURATIONS.find(([, length]) => seconds >= length) ?? (["s", 1] as const);
  return inUnit(Math.max(0, Math.floor(seconds / size)), unit);
}

/** How long something took: as a duration, below one second with a decimal ("0.9 s"). */
export const elapsed = (seconds: number | null): string =>
  seconds !== null && seconds > 0 && seconds < 1 ? inUnit(num(seconds, 1), "s") : duration(seconds);

/** Seconds of an axis: with decimals below a minute ("0.25 s"), above it as a duration. */
export const seconds = (value: number): string => (Math.abs(value) < 60 ? inUnit(num(value, 3), "s") : duration(value));

export type Unit = "ms" | "s" | "bytes" | "ratio" | "pct" | "perS" | "none";

/** The unit a metric's name ends in ("comm/exposed_ms" → ms). */
export function unitOf(metric: string): Unit {
  const name = metric.slice(metric.lastIndexOf("/") + 1).replace(/_rank$/, "");
  if (name.endsWith("_per_s")) return "perS";
  if (name.endsWith("_ms")) return "ms";
  if (name.endsWith("_s")) return "s";
  if (name === "bytes" || name.endsWith("_bytes")) return "bytes";
  if (name.endsWith("_ratio")) return "ratio";
  if (name.endsWith("_pct")) return "pct";
  return "none";
}

/** Whether a metric counts bytes, or bytes per second: with binary prefixes, and ticks at their multiples. */
export const isBytes = (name: string): boolean => unitOf(name) === "bytes" || name.endsWith("bytes_per_s");
const perSecond = (size: string): string => (size === MISSING ? size : `${size}/s`);

/** Distances between the ticks of an axis of bytes, from 1 B to 512 TiB. */
export const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** A metric's value with its unit. */
export function metric(name: string, value: WireNumber | null | undefined): string {
  switch (unitOf(name)) {
    case "ms":
      return ms(value);
    case "s": {
      const seconds = fromWire(value);
      return seconds === null ? MISSING : ms(seconds * 1000);
    }
    case "bytes":
      return bytes(value);
    case "ratio":
      return pct(value);
    case "pct": {
      const percent = fromWire(value);
      return percent === null ? MISSING : pct(percent / 100);
    }
    case "perS":
      return isBytes(name) ? perSecond(bytes(value)) : si(value, "/s");
    default:
      return num(value);
  }
}

/** Short axis text: like `metric`, with as many digits as neighbouring ticks need to differ. */
export function axis(name: string, value: number, increment = 0): string {
  const digits =
    increment > 0 && value !== 0 ? Math.min(8, Math.max(3, Math.ceil(Math.log10(Math.abs(value) / increment)) + 1)) : 3;
  switch (unitOf(name)) {
    case "bytes":
      return bytes(value, digits);
    case "ratio":
      return pct(value);
    case "perS":
      return isBytes(name) ? perSecond(bytes(value, digits)) : si(value, "", digits);
    default:
      return Math.abs(value) >= 1e4 ? si(value, "", digits) : num(value, digits);
  }
}

/** The texts of an axis's ticks. None stands there twice: where the next one would say the same, it is left out. */
export function axisTicks(name: string, ticks: readonly (number | null)[], increment = 0): string[] {
  let before = "";
  return ticks.map((tick) => {
    const text = tick === null ? "" : axis(name, tick, increment);
    if (text === before) return "";
    if (text !== "") before = text;
    return text;
  });
}
