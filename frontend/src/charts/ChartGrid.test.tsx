import { MantineProvider } from "@mantine/core";
import { act, render, screen } from "@testing-library/react";
import { beforeAll, expect, test, vi } from "vitest";

import { showTexts } from "../testing/texts";
import type { ChartSpec } from "../lib/series/series";
import { ChartGrid } from "./ChartGrid";
import type { Source } from "./series/SeriesChart";

beforeAll(() => showTexts("en"));

const NOTHING: Source = { lines: () => [], subscribe: () => () => undefined, ready: () => false };

test("charts are drawn when they come near the edges of what scrolls, which is not the window", () => {
  const made: { root: unknown; margin: string | undefined; tell: IntersectionObserverCallback; observed: Element[] }[] =
    [];
  class Observer {
    observed: Element[] = [];
    constructor(tell: IntersectionObserverCallback, options?: IntersectionObserverInit) {
      made.push({ root: options?.root, margin: options?.rootMargin, tell, observed: this.observed });
    }
    observe(element: Element): void {
      this.observed.push(element);
    }
    unobserve(): void {}
    disconnect(): void {}
  }
  vi.stubGlobal("IntersectionObserver", Observer);
  const specs = Array.from({ length: 100 }, (_, no): ChartSpec => ({
    id: `a/m${no}`,
    group: "a",
    names: [`a/m${no}`],
  }));
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <main>
        <ChartGrid
          specs={specs}
          search={{}}
          set={() => undefined}
          want={() => () => undefined}
          source={() => NOTHING}
        />
      </main>
    </MantineProvider>,
  );
  expect(made.map((one) => one.root)).toEqual(made.map(() => document.querySelector("main")));
  const drawn = (): number => screen.getAllByRole("figure").length;
  const first = drawn();
  expect(first).toBeLessThan(60);
  const near = made.find((one) => one.margin === "240px");
  const next = near?.observed[first] as Element;
  act(() =>
    near?.tell(
      [{ target: next, isIntersecting: true } as unknown as IntersectionObserverEntry],
      {} as IntersectionObserver,
    ),
  );
  expect(drawn()).toBe(first + 1);
  vi.unstubAllGlobals();
});

test("a heading names all that its charts' names begin with", () => {
  const specs = ["train/loss", "val/accuracy"].map((id): ChartSpec => ({ id, group: "train", names: [id] }));
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <ChartGrid specs={specs} search={{}} set={() => undefined} want={() => () => undefined} source={() => NOTHING} />
    </MantineProvider>,
  );
  expect(screen.getByRole("heading", { level: 2, name: /charts$/ })).toHaveTextContent("train/, val/ 2 charts");
});
