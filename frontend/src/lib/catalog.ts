/** What the server knows by name, in the language of the page: methods of search, events, providers. */
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import type { Schemas } from "../api/client";
import { catalog } from "../api/queries";

export type SearchMethod = Schemas["SearchMethodOut"];
export type ProviderOption = Schemas["ProviderOptionOut"];

/** Whether its experiment is a single trial and no search. */
export const isSingle = (of: { searcher: string }): boolean => of.searcher === "single";

/** Undefined while it is loaded. */
export const useCatalog = (): Schemas["CatalogOut"] | undefined => useQuery(catalog).data;

export const inLanguage = (words: Schemas["LocalizedText"], language: string): string =>
  language.startsWith("zh") ? words.zh : words.en;

/** Titles of methods of search and of events: "" while they are loaded. A name that the catalog lacks stands for itself. */
export function useTitles(): { method: (name: string) => string; event: (kind: string) => string } {
  const { data: known, isPending } = useQuery(catalog);
  const { language } = useTranslation().i18n;
  const title = (found: { title: Schemas["LocalizedText"] } | undefined, name: string): string =>
    found ? inLanguage(found.title, language) : isPending ? "" : name;
  return {
    method: (name) =>
      title(
        known?.search_methods.find((one) => one.name === name),
        name,
      ),
    event: (kind) =>
      title(
        known?.notified_events.find((one) => one.kind === kind),
        kind,
      ),
  };
}
