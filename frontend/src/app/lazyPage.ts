/** Pages are fetched when first visited, or before that in a quiet moment. */
import { type ComponentType, createElement, use } from "react";

/** The code of a page could not be fetched: no server, or a newer one that no longer has it. */
export class PageLoadError extends Error {
  override name = "PageLoadError";
}

export interface LazyPage {
  (): ReturnType<typeof createElement>;
  /** Fetch the code. Never rejects: a page that is not there says so when it is shown. */
  preload: () => Promise<void>;
}

const pages: LazyPage[] = [];

/**
 * A page whose code comes with its first visit. A failed fetch is shown as PageLoadError and tried
 * again by the next visit; it never reloads the document, which would put the browser's own error
 * page in place of what is on the screen.
 */
export function lazyPage<Name extends string>(load: () => Promise<Record<Name, ComponentType>>, name: Name): LazyPage {
  let component: ComponentType | undefined;
  let failure: PageLoadError | undefined;
  let loading: Promise<void> | undefined;
  const preload = (): Promise<void> => {
    failure = undefined;
    loading ??= load()
      .then((module) => {
        component = module[name];
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
