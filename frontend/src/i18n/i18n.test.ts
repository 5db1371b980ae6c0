import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

import { en } from "./en";
import { pages } from "./en/pages";
import { zhCN } from "./zh-CN";

function flatten(node: object, prefix = ""): Map<string, string> {
  const out = new Map<string, string>();
  for (const [key, value] of Object.entries(node)) {
    if (typeof value === "string") out.set(prefix + key, value);
    else for (const [k, v] of flatten(value as object, `${prefix}${key}.`)) out.set(k, v);
  }
  return out;
}
const english = flatten({ ...en, ...pages });
const chinese = flatten(zhCN);

test("both languages have the same keys", () => {
  expect([...chinese.keys()].toSorted()).toEqual([...english.keys()].toSorted());
});

test("every Chinese text is translated", () => {
  const same = [...english].filter(
    ([key, text]) => chinese.get(key) === text && /[a-z]{3}/i.test(text.replace(/\{\{.*?\}\}/g, "")),
  );
  expect(same.map(([key]) => key)).toEqual([]);
  const latin = [...chinese].filter(
    ([, text]) => !/[\u4e00-\u9fff]/.test(text) && /[a-z]{3}/i.test(text.replace(/\{\{.*?\}\}/g, "")),
  );
  // "rank" is the word that Chinese papers and PyTorch users write.
  expect(latin.map(([key]) => key)).toEqual(["rank.no"].filter((key) => chinese.has(key)));
});

test("both languages fill the same values in", () => {
  const names = (text: string | undefined): string[] =>
    [...new Set((text ?? "").match(/\{\{\w+\}\}/g) ?? [])].toSorted();
  for (const [key, text] of english) expect(names(chinese.get(key)), key).toEqual(names(text));
});

const files = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const full = path.join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "i18n" ? [] : files(full);
    return /\.tsx?$/.test(entry.name) && !/\.(test|gen)\./.test(entry.name) ? [full] : [];
  });
const sources = new Map(
  files(path.resolve(import.meta.dirname, "..")).map((file) => [file, readFileSync(file, "utf8")]),
);

test("every key is used", () => {
  const source = [...sources.values()].join("\n");
  const begun = /\bt\(\s*`([\w.]+)\.\$\{|\bword\(\s*t,\s*"([\w.]+)"/g;
  const dynamic = [...source.matchAll(begun)].map((match) => `${match[1] ?? match[2]}.`);
  const unused = [...english.keys()].filter((key) => {
    const base = key.replace(/_(zero|one|other)$/, "");
    return !source.includes(`"${base}"`) && !dynamic.some((prefix) => key.startsWith(prefix));
  });
  expect(unused).toEqual([]);
});

test("every function of the SDK that a text names exists", () => {
  const source = readFileSync(path.resolve(import.meta.dirname, "../../../trainer/muster/__init__.py"), "utf8");
  const names = new Set(
    [...(/__all__ = \[([^\]]*)\]/.exec(source)?.[1] ?? "").matchAll(/"(\w+)"/g)].map((match) => match[1]),
  );
  const named = [...english, ...chinese].flatMap(([key, text]) =>
    [...text.matchAll(/\bmuster\.(\w+)\(/g)].map((match) => [key, match[1]] as const),
  );
  expect(named.length).toBeGreaterThan(2);
  expect(named.filter(([, name]) => !names.has(name))).toEqual([]);
});
