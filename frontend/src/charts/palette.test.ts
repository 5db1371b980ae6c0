import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";

import { CLASS_COLORS } from "../common/goodput/pieces";
import { lineOfRun, lineStyle, type Palette, SERIES_ORDER } from "./palette";

const SOURCES = path.resolve(import.meta.dirname, "..");
const THEME = readFileSync(path.join(SOURCES, "app/theme.css"), "utf8");

/** The tokens of a theme. */
function tokens(scheme: "light" | "dark"): Map<string, string> {
  const start = THEME.indexOf(`data-mantine-color-scheme="${scheme}"`);
  const block = THEME.slice(start, THEME.indexOf("}", start));
  return new Map([...block.matchAll(/(--[\w-]+): (#[\da-f]{6});/g)].map((match) => [match[1] ?? "", match[2] ?? ""]));
}

type Triple = [number, number, number];
const linear = (byte: number): number => (byte <= 0.04045 ? byte / 12.92 : ((byte + 0.055) / 1.055) ** 2.4);
const rgb = (hex: string): Triple =>
  [1, 3, 5].map((at) => linear(Number.parseInt(hex.slice(at, at + 2), 16) / 255)) as Triple;
const times = (rows: Triple[], [a, b, c]: Triple): Triple => rows.map(([x, y, z]) => x * a + y * b + z * c) as Triple;

/** Björn Ottosson's OKLab, in hundredths: lightness and two axes of colour. */
function oklab(color: Triple): Triple {
  const cones = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    color,
  ).map((value) => Math.cbrt(Math.max(0, value))) as Triple;
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    cones,
  ).map((value) => value * 100) as Triple;
}

/** Machado, Oliveira and Fernandes 2009, at full severity. */
const VISIONS: Record<string, Triple[]> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protan: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deutan: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritan: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
const seen = (hex: string, vision: Triple[]): Triple =>
  oklab(times(vision, rgb(hex)).map((value) => Math.min(1, Math.max(0, value))) as Triple);

const luminance = (hex: string): number => {
  const [r, g, b] = rgb(hex);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one: string, other: string): number => {
  const [high = 0, low = 0] = [luminance(one), luminance(other)].toSorted((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};

describe.each(["light", "dark"] as const)("the %s theme", (scheme) => {
  const theme = tokens(scheme);
  const token = (name: string): string => theme.get(name) ?? "#000000";
  const series = SERIES_ORDER.map((no) => token(`--series-${no}`));

  test("neighbouring lines differ in lightness", () => {
    const lightness = series.map((hex) => oklab(rgb(hex))[0]);
    const steps = lightness.map((one, at) => Math.abs(one - (lightness[(at + 1) % lightness.length] ?? 0)));
    expect(Math.min(...steps)).toBeGreaterThan(11);
  });

  test.each(Object.keys(VISIONS))("all lines differ for %s vision, and from the page", (name) => {
    const colors = series.map((hex) => seen(hex, VISIONS[name] ?? []));
    const distances = colors.flatMap((one, at) =>
      colors.slice(at + 1).map((other) => Math.hypot(...one.map((value, axis) => value - (other[axis] ?? 0)))),
    );
    expect(Math.min(...distances)).toBeGreaterThan(scheme === "light" ? 16 : 13);
    for (const hex of series) expect(contrast(hex, token("--bg"))).toBeGreaterThan(3);
  });

  test.each(Object.keys(VISIONS))("neighbouring classes of goodput differ for %s vision", (name) => {
    const colors = Object.values(CLASS_COLORS).map((color) => token(color.slice("var(".length, -1)));
    const shown = colors.map((hex) => seen(hex, VISIONS[name] ?? []));
    const distances = shown
      .slice(1)
      .map((one, at) => Math.hypot(...one.map((value, axis) => value - (shown[at]?.[axis] ?? 0))));
    expect(Math.min(...distances)).toBeGreaterThan(10);
  });

  test("text can be read on every surface", () => {
    for (const text of ["--text", "--text-2", "--text-3", "--accent"])
      for (const surface of ["--bg", "--panel", "--raised"])
        expect(contrast(token(text), token(surface)), `${text} on ${surface}`).toBeGreaterThanOrEqual(4.5);
    for (const state of ["run", "ok", "warn", "bad", "idle", "lost"])
      for (const surface of ["--bg", `--${state}-soft`])
        expect(contrast(token(`--${state}`), token(surface)), `--${state} on ${surface}`).toBeGreaterThanOrEqual(4.5);
  });

  test("text can be read on what is filled", () => {
    const bright = new Set([0, 1, 4]); // as the slots of the overview take it
    series.forEach((hex, at) => {
      const ink = bright.has(SERIES_ORDER[at] ?? -1) ? "--on-bright" : "--on-deep";
      expect(contrast(hex, token(ink)), `${ink} on ${hex}`).toBeGreaterThanOrEqual(4.5);
    });
    for (const part of ["--part-forward", "--series-0", "--part-bubble"])
      expect(contrast(token(part), token("--on-bright")), part).toBeGreaterThanOrEqual(4.5);
    expect(contrast(token("--mantine-primary-color-filled"), token("--on-filled"))).toBeGreaterThanOrEqual(4.5);
  });

  test("amounts grow brighter or darker from end to end", () => {
    const lightness = [0, 1, 2, 3, 4].map((no) => oklab(rgb(token(`--scale-${no}`)))[0]);
    const ordered = lightness.toSorted((a, b) => (scheme === "light" ? b - a : a - b));
    expect(lightness).toEqual(ordered);
  });
});

/** What a canvas takes where no theme is loaded; nothing on a page has it. */
const WITHOUT_THEME = "#888888";

test("every color comes from the theme", () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll(path.sep, "/"))
    .filter((file) => /\.(css|tsx?)$/.test(file) && !/\.test\.|\.gen\.|^app\/theme\.css$/.test(file));
  expect(files.length).toBeGreaterThan(300);
  const own = files.flatMap((file) => {
    const text = readFileSync(path.join(SOURCES, file), "utf8").replace(/\/\*.*?\*\//gs, "");
    // In code a color is a string of its own: "#7" and "#token=" are none.
    const found = file.endsWith(".css")
      ? text.matchAll(/#[\da-f]{3,8}\b|\b(?:rgb|hsl|oklch)a?\(|:\s*(?:white|black)\b/gi)
      : text.matchAll(/["'`](#[\da-f]{3}|#[\da-f]{6}|#[\da-f]{8}|(?:rgb|hsl)a?\([^"'`]*)["'`]/gi);
    return [...found].map((match) => `${file}: ${match[1] ?? match[0]}`);
  });
  expect(own.filter((line) => !line.endsWith(WITHOUT_THEME))).toEqual([]);
});

test("the runs of one trial share its hue and differ in their dashes", () => {
  const palette = { series: ["#a", "#b", "#c", "#d", "#e", "#f"], text: "#0", line: "#1" } as unknown as Palette;
  const styles = [0, 1, 2, 3].map((no) => lineStyle(lineOfRun(4, no), palette));
  expect(new Set(styles.map(({ stroke }) => stroke)).size).toBe(1);
  expect(new Set(styles.map(({ dash }) => String(dash))).size).toBe(4);
});
