import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterContextProvider } from "@tanstack/react-router";
import { render, screen, within } from "@testing-library/react";
import i18next from "i18next";
import { beforeAll, expect, test, vi } from "vitest";

import { type Cluster, type Experiment, me, type Search } from "../api/queries";
import { TrialsBar } from "../components/basics";
import { Events } from "../components/Events";
import { DataTable } from "../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../components/QueryView";
import { errorLine, fieldText, Reason, Message } from "../components/text/Message";
import { inWords, StateBadge } from "../components/StateBadge";
import { Ago } from "../components/Time";
import { ApiError, toApiError } from "../api/client";
import { setLanguage } from "../i18n";
import { showTexts } from "../testing/texts";
import { clausesOf, type Part } from "../i18n/server";
import { safeTarget } from "./auth/SignIn";
import { attention } from "./cluster/attention";
import { lastEnded } from "./cluster/recent";
import { layoutRungs, LINKS_MAX, roundTicks } from "./experiments/search/rungs";
import { rolesUpTo } from "./settings/access/roles";

beforeAll(() => showTexts("en"));
const show = (node: React.ReactNode) =>
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      {node}
    </MantineProvider>,
  );

test("a state is a word, also one this dashboard does not know", () => {
  show(
    <>
      <StateBadge state="STOPPED_EARLY" />
      <StateBadge state="NEW_THING" />
    </>,
  );
  expect(screen.getByText("Stopped early")).toBeVisible();
  expect(screen.getByText("new thing")).toBeVisible();
});

test("the trials bar says in words what its colours say", () => {
  show(<TrialsBar byState={{ COMPLETED: 3, RUNNING: 1 }} planned={8} />);
  expect(screen.getByRole("img")).toHaveAccessibleName("3 Completed, 1 Running");
});

test("a sortable column says its direction", () => {
  show(
    <DataTable
      rows={[{ id: 1 }]}
      rowKey={(r) => r.id}
      label="things"
      columns={[{ id: "a", header: "A", cell: (r) => r.id, sort: { direction: "desc", toggle: () => {} } }]}
    />,
  );
  expect(screen.getByRole("columnheader")).toHaveAttribute("aria-sort", "descending");
});

test("a card on a phone leaves out what has no value", () => {
  vi.stubGlobal("matchMedia", () => ({ matches: true, addEventListener: () => {}, removeEventListener: () => {} }));
  const columns = [
    { id: "at", header: "At", cell: () => <Ago at={null} /> },
    { id: "size", header: "Size", cell: (row: { size: string }) => row.size },
  ];
  const cells = (rows: { size: string }[]) => (
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <DataTable rows={rows} rowKey={() => 1} label="things" columns={columns} />
    </MantineProvider>
  );
  const missing = (): boolean[] => screen.getAllByRole("cell").map((cell) => cell.hasAttribute("data-missing"));
  const { rerender } = render(cells([{ size: "–" }]));
  expect(missing()).toEqual([true, true]);
  rerender(cells([{ size: "3 MiB" }]));
  expect(missing()).toEqual([true, false]);
  vi.unstubAllGlobals();
});

test("of many rows only those near the screen are drawn, and each says which it is", () => {
  const table = (num: number) => (
    <main>
      <DataTable
        rows={Array.from({ length: num }, (_, id) => ({ id }))}
        rowKey={(r) => r.id}
        label="things"
        columns={[{ id: "a", header: "A", cell: (r) => `row ${r.id}` }]}
      />
    </main>
  );
  // jsdom lays nothing out.
  const height = vi.spyOn(Element.prototype, "clientHeight", "get").mockReturnValue(600);
  const few = show(table(150));
  expect(within(few.container).getAllByRole("row")).toHaveLength(151);
  few.unmount();
  const { container, unmount } = show(table(10_000));
  const { getByRole, getAllByRole } = within(container);
  expect(getByRole("table")).toHaveAttribute("aria-rowcount", "10001");
  expect(getAllByRole("row").length).toBeLessThan(100);
  expect(getByRole("row", { name: "row 0" })).toHaveAttribute("aria-rowindex", "2");
  unmount();
  height.mockRestore();
});

const query = {
  data: undefined as number | undefined,
  error: null as Error | null,
  isPending: true,
  isError: false,
  isFetching: true,
  dataUpdatedAt: 0,
  errorUpdatedAt: 0,
  refetch: () => {},
};

test("loading, error, stale and there are four states", () => {
  const { rerender } = show(<QueryView query={query}>{(n) => <b>{n}</b>}</QueryView>);
  expect(screen.getByRole("status")).toHaveAccessibleName("Loading");
  const again = (q: typeof query) =>
    rerender(
      <MantineProvider withCssVariables={false} withGlobalClasses={false}>
        <QueryView query={q}>{(n) => <b>{n}</b>}</QueryView>
      </MantineProvider>,
    );
  const error = new ApiError(500, "internal", "It broke.", null, [], "req-1");
  again({ ...query, error, isError: true, errorUpdatedAt: 1 });
  expect(screen.getByRole("alert")).toHaveTextContent("It broke.");
  expect(screen.getByRole("alert")).toHaveTextContent("req-1");
  again({ ...query, errorUpdatedAt: 1 }); // is fetched again
  expect(screen.getByRole("alert")).toHaveTextContent("It broke.");
  again(query); // another page's
  expect(screen.getByRole("status")).toHaveAccessibleName("Loading");
  again({ ...query, data: 7, error, isError: true, dataUpdatedAt: 1 });
  expect(screen.getByText("7")).toBeVisible();
  expect(screen.getByText(/Could not refresh/)).toBeVisible();
  again({ ...query, data: 8 });
  expect(screen.queryByText(/Could not refresh/)).toBeNull();
});

test("what failed stays said while it is fetched again, however often", () => {
  const failed = {
    data: undefined,
    isPending: false,
    isError: true,
    isFetching: false,
    dataUpdatedAt: 0,
    refetch: vi.fn(),
  };
  const view = (error: Error | null, at: number) => (
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryView query={{ ...failed, error, errorUpdatedAt: at }}>{() => null}</QueryView>
    </MantineProvider>
  );
  const { rerender } = render(view(new ApiError(500, "server.failed", "The server failed.", null, []), 1));
  for (const at of [1, 2, 3]) {
    rerender(view(null, at)); // each failed, and was followed by the next fetch before anything was drawn
    expect(screen.getByText("The server failed.")).toBeVisible();
  }
  // Of another query that is fetched for the first time, nothing has failed.
  rerender(view(null, 0));
  expect(screen.queryByText("The server failed.")).toBeNull();
});

test("what a role does not show says who can help", () => {
  const queries = new QueryClient();
  queries.setQueryData(me.queryKey, {
    id: 1,
    username: "bob",
    role: "viewer",
    has_password: true,
    provider_account: null,
    has_second_factor: false,
    permissions: [],
  });
  const error = new ApiError(403, "auth.forbidden", "The role viewer does not allow this.", null, []);
  const { unmount } = show(
    <QueryClientProvider client={queries}>
      <QueryView query={{ ...query, error, isError: true }}>{(n) => <b>{n}</b>}</QueryView>
    </QueryClientProvider>,
  );
  expect(screen.getByRole("alert")).toHaveTextContent("You do not have access");
  expect(screen.getByRole("alert")).toHaveTextContent("signed in as bob (Viewer)");
  unmount();
});

test("what was never loaded says that it comes by itself when the server is back", () => {
  const error = new ApiError(0, "unreachable", "TypeError: fetch failed");
  const { unmount } = show(<QueryView query={{ ...query, error, isError: true }}>{(n) => <b>{n}</b>}</QueryView>);
  expect(screen.getByRole("alert")).toHaveTextContent("The server cannot be reached.");
  expect(screen.getByRole("alert")).toHaveTextContent("loads by itself");
  expect(screen.getByRole("button", { name: "Try again" })).toBeVisible();
  unmount();
});

test("an error that is not ours still reads as one", () => {
  expect(toApiError(502, "<html>", null).message).toContain("502");
  expect(toApiError(404, { error: { code: "x.y", message: "No x.", fields: [] } }, "r").code).toBe("x.y");
  show(<ErrorNotice error={new ApiError(0, "unreachable", "TypeError: fetch failed")} />);
  expect(screen.getByText("The server cannot be reached.")).toBeVisible();
});

test("in Chinese what the server says is there by its code, then in its own words", async () => {
  const error = new ApiError(404, "nodes.not_found", "There is no node 'x'.");
  expect(errorLine(error)).toBe("There is no node 'x'.");
  await setLanguage("zh-CN");
  expect(errorLine(error)).toBe("没有这个节点。（There is no node 'x'.）");
  expect(show(<ErrorNotice error={error} />).container).toHaveTextContent("没有这个节点。There is no node 'x'.");
  show(
    <>
      <p>
        <Message kind="terminations" code="out_of_memory" text="rank 3 ran out." />
      </p>
      <p>
        <Message kind="events" code="of.tomorrow" text="New." />
      </p>
    </>,
  );
  expect(screen.getByText("内存不足")).toHaveTextContent("内存不足 rank 3 ran out.");
  expect(screen.getByText("New.")).toBeVisible();
  const happened = (message: string, after: string) => ({
    id: message,
    at: null,
    level: "info",
    type: "trial.state",
    message,
    data: { after },
  });
  const items = [
    happened("Trial 2 is COMPLETED: every worker exited with 0.", "COMPLETED"),
    happened("The experiment is FAILED: rank 0 ran out.", "FAILED"),
  ];
  show(<Events query={{ data: { pages: [{ items }] } } as never} />);
  const texts = within(screen.getByTestId("events"))
    .getAllByRole("listitem")
    .map((item) => item.textContent);
  expect(texts[0]).toContain("试验 2：已完成 所有 worker 均以退出码 0 结束");
  expect(texts[1]).toContain("实验：失败 rank 0 ran out");
  await setLanguage("en");
});

test("signing in never leads to another site", () => {
  expect(safeTarget("/experiments?q=a")).toBe("/experiments?q=a");
  for (const bad of ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", undefined])
    expect(safeTarget(bad)).toBe("/");
});

test("a token's role is never above its owner's", () => {
  expect(rolesUpTo("member")).toEqual(["metrics", "predict", "viewer", "member"]);
  expect(rolesUpTo(undefined)).toEqual(["metrics", "viewer"]);
});

const NOW = Date.parse("2026-01-02T00:00:00Z");
const CALM = {
  impossible: [],
  num_impossible: 0,
  stuck: [],
  num_stuck: 0,
  warnings: [],
  num_warnings: 0,
} as unknown as Cluster;
const experimentOf = (patch: Partial<Experiment>): Experiment =>
  ({
    id: 1,
    name: "e",
    state: "RUNNING",
    reason: "",
    best_metric: null,
    headline: null,
    non_finite_metric: null,
    standstill: null,
    is_quiet: false,
    only_trial_id: null,
    ended_at: null,
    ...patch,
  }) as Experiment;

test("attention: what the present nodes can never run, with how many more there are", () => {
  const one = {
    trial_id: 7,
    trial_no: 1,
    experiment_id: 3,
    experiment_name: "big",
    waiting_since: "2026-01-01T23:59:00Z",
    pending_reason: "Needs 6 cpu slots",
    pending_parts: [],
  };
  const items = attention({ ...CALM, impossible: [one], num_impossible: 3 } as unknown as Cluster, [], NOW);
  expect(items.map((item) => [item.kind, item.tone, item.to, item.name, item.detail])).toEqual([
    ["impossible", "warn", "/trials/7", "big", "Needs 6 cpu slots"],
    ["moreImpossible", "warn", "/queue", "2", ""],
  ]);
  expect(attention(CALM, [], NOW)).toEqual([]);
});

test("what ended last stands first, whatever was submitted last", () => {
  const ended = (id: number, at: string | null) => experimentOf({ id, ended_at: at });
  const items = [
    ended(3, "2026-01-01T01:00:00Z"),
    ended(2, null),
    ended(1, "2026-01-01T02:00:00Z"),
    ended(4, "2026-01-01T00:00:00Z"),
  ];
  expect(lastEnded(items, 2).map((item) => item.id)).toEqual([1, 3]);
});

const search = (metrics: (number | "NaN" | null)[]): Search => ({
  method: "asha",
  rule: "stopping",
  sampler: "random",
  finish_reason: "",
  metric_name: "val/loss",
  metric_goal: "min",
  unit: "epochs",
  num_trials_planned: 4,
  has_fixed_trials: false,
  num_trials_created: 4,
  concurrent: 4,
  finished: false,
  rungs: [
    {
      bracket: 0,
      index: 0,
      units: 1,
      cutoff: 0.5,
      num_trials: metrics.length,
      num_promoted: Math.min(metrics.length, 1),
      num_outran: 0,
      trials: metrics.map((metric, i) => ({
        trial_id: i + 1,
        trial_no: i + 1,
        metric,
        promoted: i === 0,
        stopped: i === 1,
        outran: false,
      })),
    },
    {
      bracket: 0,
      index: 1,
      units: 3,
      cutoff: null,
      num_trials: 1,
      num_promoted: 0,
      num_outran: 0,
      trials: [{ trial_id: 1, trial_no: 1, metric: 0.2, promoted: false, stopped: false, outran: false }],
    },
  ],
});

test("rungs: a dot per result, links along a trial, fates told apart", () => {
  const layout = layoutRungs(search([0.3, 0.9, 0.6, null]));
  expect(layout.dots).toHaveLength(4);
  expect(layout.links).toHaveLength(1);
  const fate = (rung: number, id: number) => layout.dots.find((d) => d.rung === rung && d.trialId === id)?.fate;
  expect([fate(0, 1), fate(0, 2), fate(0, 3), fate(1, 1)]).toEqual(["promoted", "stopped", "waiting", "finished"]);
  for (const dot of layout.dots) {
    expect(dot.y).toBeGreaterThan(0);
    expect(dot.y).toBeLessThan(layout.height);
  }
});

test("rungs: NaN has no place on the axis and is counted; wide ranges get a log axis", () => {
  const layout = layoutRungs(search(["NaN", 0.001, 10]));
  expect(layout.columns[0]?.nonFinite).toBe(1);
  expect(layout.dots).toHaveLength(3);
  expect(layout.log).toBe(true);
  expect(layoutRungs({ ...search([]), rungs: [] }).dots).toEqual([]);
});

test("rungs: of more lines than can be told apart those that lead furthest are drawn, and how many there are is known", () => {
  const trials = Array.from({ length: LINKS_MAX + 100 }, (_, i) => ({
    trial_id: i + 1,
    trial_no: i + 1,
    metric: i,
    promoted: true,
    stopped: false,
    outran: false,
  }));
  const rung = (index: number, here: typeof trials) => ({
    bracket: 0,
    index,
    units: 3 ** index,
    cutoff: null,
    num_trials: here.length,
    num_promoted: 0,
    num_outran: 0,
    trials: here,
  });
  const layout = layoutRungs({
    ...search([]),
    rungs: [rung(0, trials), rung(1, trials), rung(2, trials.slice(0, 30))],
  });
  expect(layout.links).toHaveLength(LINKS_MAX);
  expect(layout.numLinks).toBe(LINKS_MAX + 130);
  expect(layout.links.filter((link) => link.to.rung === 2)).toHaveLength(30);
});

test("ticks of the rung view are round numbers within the range", () => {
  expect(roundTicks(0.31, 2.27, false)).toEqual([0.5, 1, 1.5, 2]);
  expect(roundTicks(97.2, 99.1, false)).toEqual([97.5, 98, 98.5, 99]);
  expect(roundTicks(-3, 12, false)).toEqual([0, 5, 10]);
  expect(roundTicks(0.03, 4, true)).toEqual([0.05, 0.1, 0.2, 0.5, 1, 2]);
  expect(roundTicks(2e-9, 5e4, true)).toEqual([1e-6, 1e-3, 1, 1000]);
  expect(roundTicks(0.5, 0.5, false)).toEqual([0.5]);
});

test("an event has the words of the page for states, and leaves what a script wrote alone", async () => {
  const told = (text: string): string => inWords(i18next, text);
  expect(told("Trial 12 is STOPPED_EARLY: stopped by the searcher.")).toBe(
    "Trial 12 is stopped early: stopped by the searcher.",
  );
  expect(told("Attempt 1 is SUCCEEDED: every worker exited with 0.")).toMatch(/^Attempt 1 is succeeded: /);
  const written = "rank 0 exited with code 1: Trial 1 is FAILED";
  expect(told(written)).toBe(written);
  show(<Message kind="terminations" code={null} text="rank 0 exited with code 1" />);
  expect(screen.getByText("Rank 0 exited with code 1")).toBeVisible();
  show(<Message kind="terminations" code={null} text="train.py has no main()" />);
  expect(screen.getByText("train.py has no main()")).toBeVisible();
  await setLanguage("zh-CN");
  expect(told("Trial 12 is FAILED: out of memory.")).toBe("Trial 12 is FAILED: out of memory.");
  await setLanguage("en");
});

test("in Chinese the clauses of a reason that are known are said so, and what a script said stays", async () => {
  const said = "rank 3 on gpu-1 exited with code 1: ValueError: a; b; not restarted: restarts.user is 0";
  expect(clausesOf(said)).toBeNull();
  await setLanguage("zh-CN");
  expect(clausesOf(said)).toBe("gpu-1 上的 rank 3 以退出码 1 结束：ValueError: a; b；未重启：restarts.user 为 0");
  expect(clausesOf("trial 2: rank 0 on n1 exited with code 7")).toBe("试验 2：n1 上的 rank 0 以退出码 7 结束");
  expect(clausesOf("infra restart (1 of 3 used), at once")).toBe("因基础设施故障而重启（已用 1/3），立即");
  expect(clausesOf("the script said so; and this")).toBeNull();
  show(<Message kind="terminations" code="user_error" text={said} />);
  expect(screen.getByText(/未重启/)).toBeVisible();
  await setLanguage("en");
});

test("a reason links to the experiments that it names, in every language", async () => {
  const parts: Part[] = [
    { code: "pending.held", params: { slots: 2, experiment: 1234 } },
    { code: "pending.held", params: { slots: 1, experiment: 7 } },
  ];
  const text = "2 held by experiment 1234, 1 held by experiment 7, see experiment 8 and `experiment 7`";
  const router = createRouter({ routeTree: createRootRoute(), history: createMemoryHistory() });
  const reason = (
    <RouterContextProvider router={router as never}>
      <Reason text={text} parts={parts} />
    </RouterContextProvider>
  );
  const { unmount } = show(reason);
  const links = async () =>
    (await screen.findAllByRole("link")).map((link) => [link.textContent, link.getAttribute("href")]);
  expect(await links()).toEqual([
    ["experiment 1234", "/experiments/1234"],
    ["experiment 7", "/experiments/7"],
  ]);
  unmount();
  await setLanguage("zh-CN");
  show(reason);
  expect(await links()).toEqual([
    ["实验 1234", "/experiments/1234"],
    ["实验 7", "/experiments/7"],
  ]);
  await setLanguage("en");
});

test("why something waits is said in the language of the page, from its parts", async () => {
  const parts: Part[] = [
    { code: "wish.slots", params: { slots: 12_000, slot_type: "cuda", pool: "default" } },
    { code: "pending.on_shut_node", params: { slots: 8, node: "n3", state: "draining" } },
  ];
  const text = "needs 12,000 cuda slots in pool default: 8 on draining node n3";
  const { unmount } = show(
    <p data-testid="why">
      <Reason text={text} parts={parts} />
    </p>,
  );
  expect(screen.getByTestId("why")).toHaveTextContent(text);
  unmount();
  await setLanguage("zh-CN");
  show(
    <p data-testid="why">
      <Reason text={text} parts={parts} />
    </p>,
  );
  expect(screen.getByTestId("why")).toHaveTextContent(
    /^需要资源池 default 中的 12,000 个 cuda 槽位，节点 n3（排空中）上有 8 个$/,
  );
  // What has no code follows as the server put it.
  expect(
    fieldText({
      path: "code",
      message: "has no effect with checkpoint",
      hint: "leave it out",
      parts: [{ code: "field.no_effect", params: { other: "checkpoint" } }],
    }),
  ).toBe("与 checkpoint 一起使用时不起作用 · leave it out");
  expect(fieldText({ path: "a", message: "is odd", hint: null })).toBe("不能这样写：is odd");
  expect(
    fieldText({
      path: "a",
      message: "must be at least 1",
      parts: [{ code: "field.at_least", params: { limit: "1" } }],
    }),
  ).toBe("不能小于 1");
  await setLanguage("en");
});

test("an error names the fields that are wrong", () => {
  show(
    <ErrorNotice
      error={
        new ApiError(422, "request.invalid", "Some of what was sent cannot work.", null, [
          { path: "price", message: "must be at least 0" },
        ])
      }
    />,
  );
  expect(screen.getByTestId("field-errors")).toHaveTextContent("price must be at least 0");
});
