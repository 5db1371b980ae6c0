import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

import { DOCS, docPage, docSections, languageOf, titleOf } from "./docs";
import { searchDocs } from "./searchDocs";
import type { DocPage, DocSection } from "./types";

/** What a query of the documentation answers, without a cache. */
const answer = <Data>(query: { queryFn?: unknown }): Promise<Data> => (query.queryFn as () => Promise<Data>)();
const read = (slug: string, language = "en"): Promise<DocPage> => answer(docPage(slug, language));

const files = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const full = path.join(folder, entry.name);
    return entry.isDirectory() ? files(full) : [full];
  });

test("every page is there in the languages in which it is written", async () => {
  const docs = path.resolve(import.meta.dirname, "../../../../docs");
  const written = ["guides", "concepts", "reference"].flatMap((folder) =>
    files(path.join(docs, folder)).map((file) => path.relative(docs, file).replaceAll(path.sep, "/")),
  );
  const shown = DOCS.flatMap(({ slug, titles }) =>
    Object.keys(titles).map((language) => (language === "en" ? `${slug}.md` : `${slug}.${language}.md`)),
  );
  expect(shown.toSorted()).toEqual(written.toSorted());
  for (const info of DOCS) expect((await read(info.slug)).title).toBe(info.titles["en"]);
});

test("links between pages and to their sections lead somewhere", async () => {
  const pages = new Map<string, Set<string>>();
  const links: [string, string, string][] = [];
  for (const info of DOCS)
    for (const language of Object.keys(info.titles)) {
      const { html } = await read(info.slug, language);
      pages.set(
        `${language}:${info.slug}`,
        new Set([...html.matchAll(/ id="([^"]+)"/g)].map((match) => match[1] ?? "")),
      );
      for (const [, href] of html.matchAll(/href="(\/[^"]*)"/g)) links.push([info.slug, language, href ?? ""]);
    }
  expect(links.length).toBeGreaterThan(150);
  const broken = links.filter(([from, language, href]) => {
    const url = new URL(href, `http://here/docs/${from}`);
    const slug = url.pathname.slice("/docs/".length);
    const info = DOCS.find((page) => page.slug === slug);
    if (!info) return slug !== "contents";
    const ids = pages.get(`${languageOf(info, url.searchParams.get("lang") ?? "en")}:${slug}`);
    const there = pages.get(`${languageOf(info, language)}:${slug}`);
    const id = decodeURIComponent(url.hash.slice(1));
    return id !== "" && !ids?.has(id) && !there?.has(id);
  });
  expect(broken).toEqual([]);
});

test("headings of the dashboard lead to sections that are there", async () => {
  const sources = files(path.resolve(import.meta.dirname, "../..")).filter((file) => file.endsWith(".tsx"));
  const targets = sources.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/\bguide="([^"]+)"/g)].map((match) => match[1] ?? ""),
  );
  expect(targets.length).toBeGreaterThan(30);
  for (const target of new Set(targets)) {
    const [slug = "", id] = target.split("#");
    const { headings } = await read(slug);
    if (id)
      expect(
        headings.map((heading) => heading.id),
        target,
      ).toContain(id);
  }
});

test("pictures are files of the dashboard and nothing is styled or scripted in place", async () => {
  const { html } = await read("guides/dashboard");
  const pictures = [...html.matchAll(/<img src="([^"]+)"/g)].map((match) => match[1] ?? "");
  expect(pictures.length).toBeGreaterThan(8);
  expect(pictures.filter((source) => !/\.(?:png|svg)/.test(source))).toEqual([]);
  for (const info of DOCS)
    expect((await read(info.slug)).html).not.toMatch(/<[^>]* (?:style|on\w+)=|<script|picture:\d/);
});

test("a reader of Chinese gets what is translated, and the rest in English", async () => {
  const checkpoints = DOCS.find((page) => page.slug === "concepts/checkpoints");
  const sdk = DOCS.find((page) => page.slug === "guides/sdk");
  if (!checkpoints || !sdk) throw new Error("pages are missing");
  expect(titleOf(checkpoints, "zh-CN")).toBe("检查点");
  expect([languageOf(checkpoints, "zh-CN"), languageOf(sdk, "zh-CN")]).toEqual(["zh-CN", "en"]);
  const sections = await answer<DocSection[]>(docSections("zh-CN"));
  const of = (slug: string): string[] => sections.filter(({ page }) => page === slug).map(({ title }) => title);
  expect(of("concepts/checkpoints")).toContain("保留");
  expect(of("concepts/checkpoints")).not.toContain("Retention");
  expect(of("guides/sdk")).toContain("Checkpoints");
});

test("a search finds the section that is about its words", async () => {
  const sections = await answer<DocSection[]>(docSections("en"));
  const first = (query: string): string | undefined => {
    const hit = searchDocs(sections, query, 5)[0];
    return hit && `${hit.section.page}#${hit.section.id}`;
  };
  expect(first("shared storage")).toBe("guides/agents#shared-storage");
  expect(first("bubble pipeline")).toBe("concepts/measuring#the-bubble-of-a-pipeline");
  expect(searchDocs(sections, "MUSTER_MAX_CHUNKS nowhere-at-all", 5)).toEqual([]);
  expect(searchDocs(sections, "  ", 5)).toEqual([]);
  const code = searchDocs(sections, "muster validate search.yaml", 5)[0];
  expect(code?.section.page).toBe("guides/quickstart");
  expect(code?.excerpt).toContain("muster validate search.yaml");
  expect(searchDocs(sections, "the", 3)).toHaveLength(3);
});
