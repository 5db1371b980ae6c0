/** The documentation that comes with the dashboard, made from docs/ when it is built. */
import { queryOptions } from "@tanstack/react-query";
import { loaders, pages } from "virtual:docs";

import type { DocInfo } from "./types";

export const DOCS: readonly DocInfo[] = pages;
export const FOLDERS = ["guides", "concepts", "reference"] as const;
export type Folder = (typeof FOLDERS)[number];

/** The language in which a reader of `language` gets a page: their own where it is there, else English. */
export const languageOf = (info: DocInfo, language: string): string => (language in info.titles ? language : "en");

export const titleOf = (info: DocInfo, language: string): string =>
  info.titles[languageOf(info, language)] ?? info.slug;

/** Pages come with the release: what is here stays as it is. */
const FOREVER = { staleTime: Infinity, gcTime: Infinity } as const;

export const docPage = (slug: string, language: string) =>
  queryOptions({
    queryKey: ["docs", slug, language],
    queryFn: async () => {
      const load = loaders[slug]?.[language];
      if (!load) throw new Error(`There is no page ${slug} in ${language}.`);
      return (await load()).default;
    },
    ...FOREVER,
  });

/** What there is to search for a reader of `language`: its own pages, and the English ones of which it has none. */
export const docSections = (language: string) =>
  queryOptions({
    queryKey: ["docs-search", language],
    queryFn: async () => {
      const { default: english } = await import("virtual:docs-search/en");
      if (language !== "zh-CN") return english;
      const { default: chinese } = await import("virtual:docs-search/zh-CN");
      const translated = new Set(chinese.map((section) => section.page));
      return [...chinese, ...english.filter((section) => !translated.has(section.page))];
    },
    ...FOREVER,
  });
