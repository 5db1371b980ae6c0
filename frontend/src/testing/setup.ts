import "@testing-library/jest-dom/vitest";
import { cleanup } from "@testing-library/react";
import { afterEach } from "vitest";

// Files of tests share a document (`isolate: false`): each test leaves it empty, of what it added itself, too.
afterEach(() => {
  cleanup();
  if (typeof document !== "undefined") document.body.replaceChildren();
});

// What Mantine and the charts ask of a browser and jsdom lacks.
if (typeof window !== "undefined") {
  window.matchMedia = (query: string) =>
    ({
      matches: false,
      media: query,
      onchange: null,
      addListener: () => {},
      removeListener: () => {},
      addEventListener: () => {},
      removeEventListener: () => {},
      dispatchEvent: () => false,
    }) as MediaQueryList;
  class NoObserver {
    observe() {}
    unobserve() {}
    disconnect() {}
    takeRecords() {
      return [];
    }
  }
  window.ResizeObserver = NoObserver as unknown as typeof ResizeObserver;
  window.IntersectionObserver = NoObserver as unknown as typeof IntersectionObserver;
}
