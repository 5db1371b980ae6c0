/** Pages are fetched when first visited, or before that in a quiet moment. */
import type { QueryClient } from "@tanstack/react-query";
import { type ComponentType, createElement, use } from "react";

import { withTexts } from "../i18n";

/** The code of a page could not be fetched: no server, or a newer one that no longer has it. */
export class PageLoadError extends Error {
  override name = "PageLoadError";
}

export interface LazyPage {
  (): ReturnType<typeof createElement>;
  /** Fetch the code, and with `early` ask for data with it. Never rejects: a page that is not there says so when it is shown. */
  preload: (early?: Early) => Promise<void>;
}

/** Where one is about to go. */
export interface Early {
  queryClient: QueryClient;
  params: Partial<Record<string, string>>;
  search: object;
}

/** askEarly asks for what the page shows first, once its code is there and before it is drawn. */
type PageModule<Name extends string> = Record<Name, ComponentType> & { askEarly?: AskEarly };
type AskEarly = (early: Early) => Promise<unknown>;

const pages: LazyPage[] = [];

/**
 * A page whose code comes with its first visit. A failed fetch is shown as PageLoadError and tried
 * again by the next visit; it never reloads the document, which would put the browser's own error
 * page in place of what is on the screen.
 */
export function lazyPage<Name extends string>(load: () => Promise<PageModule<Name>>, name: Name): LazyPage {
  let component: ComponentType | undefined;
  let ask: AskEarly | undefined;
  let asking: Early | undefined;
  let failure: PageLoadError | undefined;
  let loading: Promise<void> | undefined;
  const askNow = (): void => {
    // Nobody waits here, and what fails is told by the page when it asks itself.
    if (asking) ask?.(asking).catch(() => undefined);
    asking = undefined;
  };
  const preload = (early?: Early): Promise<void> => {
    failure = undefined;
    asking = early ?? asking;
    if (component) askNow();
    loading ??= withTexts(load())
      .then((module) => {
        component = module[name];
        ask = module.askEarly as AskEarly | undefined;
        // Here, since who waits for the code draws it before anybody behind him is called.
        askNow();
      })
      .catch((error: unknown) => {
        loading = undefined;
        failure = new PageLoadError(error instanceof Error ? error.message : String(error));
      });
    return loading;
  };
  function Page(): ReturnType<typeof createElement> {
    if (failure) throw failure;
    if (!component) use(loading ?? preload());
    return createElement(component as ComponentType);
  }
  Page.preload = preload;
  pages.push(Page);
  return Page;
}

/** Fetch the code of every page, one after the other, so that going to one works without the server. */
export async function preloadPages(): Promise<void> {
  for (const page of pages) await page.preload();
}
