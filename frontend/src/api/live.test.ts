import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { ANSWER_MS, coalesce, LiveClient, POLL_MS, SETTLED_MS } from "./live";

class FakeSocket {
  static all: FakeSocket[] = [];
  sent: unknown[] = [];
  readyState = 0;
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  constructor() {
    FakeSocket.all.push(this);
  }
  send(data: string): void {
    this.sent.push(JSON.parse(data));
  }
  close(): void {
    this.readyState = 3;
  }
  accept(): void {
    this.readyState = 1;
    this.onopen?.();
    this.say({ hello: { server: "x", resumed: false } });
    // The server answers each subscription with a hint.
    for (const { subscribe } of this.sent as { subscribe?: string[] }[])
      for (const topic of subscribe ?? []) this.say({ topic, seq: 0 });
  }
  say(message: unknown): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
  drop(): void {
    this.readyState = 3;
    this.onclose?.();
  }
}
const last = (): FakeSocket => {
  const socket = FakeSocket.all.at(-1);
  if (!socket) throw new Error("no socket was opened");
  return socket;
};

let live: LiveClient;
const probe = vi.fn();
beforeEach(() => {
  probe.mockReset();
  vi.useFakeTimers();
  FakeSocket.all = [];
  live = new LiveClient(
    () => new FakeSocket(),
    () => 1,
    probe,
  );
});
afterEach(() => {
  live.stop();
  vi.useRealTimers();
});

describe("live client", () => {
  test("subscribes what was asked before and after the socket opened", () => {
    live.subscribe("cluster", vi.fn());
    live.start();
    last().accept();
    live.subscribe("trial:1", vi.fn());
    expect(last().sent).toEqual([{ subscribe: ["cluster"] }, { subscribe: ["trial:1"] }]);
    expect(live.getStatus().state).toBe("live");
  });

  test("a topic is left when its last listener goes", () => {
    live.start();
    last().accept();
    const a = live.subscribe("cluster", vi.fn());
    const b = live.subscribe("cluster", vi.fn());
    a();
    expect(last().sent).toHaveLength(1);
    b();
    expect(last().sent.at(-1)).toEqual({ unsubscribe: ["cluster"] });
  });

  test("the answer to a new subscription counts a second later, unless a change comes before or the socket was away", () => {
    const heard = vi.fn();
    live.subscribe("cluster", heard);
    live.start();
    last().accept();
    vi.advanceTimersByTime(ANSWER_MS - 1);
    expect(heard).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(heard).toHaveBeenCalledTimes(1);
    const trial = vi.fn();
    live.subscribe("trial:1", trial);
    last().say({ topic: "trial:1", seq: 4 });
    last().say({ topic: "trial:1", seq: 5 });
    expect(trial).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(ANSWER_MS);
    expect(trial).toHaveBeenCalledTimes(1);
    last().drop();
    vi.advanceTimersByTime(500);
    heard.mockClear();
    last().accept();
    expect(heard).toHaveBeenCalled();
  });

  test("what has been quiet since long before the page opened is not asked for again", () => {
    const quiet = vi.fn();
    const recent = vi.fn();
    live.start();
    last().accept();
    live.subscribe("trial:1", quiet);
    live.subscribe("trial:2", recent);
    vi.advanceTimersByTime(2000);
    last().say({ topic: "trial:1", seq: 4, quiet_s: (SETTLED_MS + 2001) / 1000 });
    last().say({ topic: "trial:2", seq: 4, quiet_s: (SETTLED_MS + 2000) / 1000 });
    vi.advanceTimersByTime(ANSWER_MS);
    expect(quiet).not.toHaveBeenCalled();
    expect(recent).toHaveBeenCalledTimes(1);
    last().say({ topic: "trial:1", seq: 5 });
    expect(quiet).toHaveBeenCalledTimes(1);
  });

  test("hints reach their topic once per sequence number", () => {
    const cluster = vi.fn();
    const other = vi.fn();
    live.subscribe("cluster", cluster);
    live.subscribe("experiments", other);
    live.start();
    last().accept();
    cluster.mockClear();
    other.mockClear();
    last().say({ topic: "cluster", seq: 7 });
    last().say({ topic: "cluster", seq: 7 });
    last().say({ topic: "cluster", seq: 8 });
    expect(cluster).toHaveBeenCalledTimes(2);
    expect(other).not.toHaveBeenCalled();
  });

  test("says when the server's hints are late, from the greeting on and until they are not", () => {
    const heard = vi.fn();
    live.subscribe("cluster", heard);
    live.start();
    last().readyState = 1;
    last().onopen?.();
    last().say({ hello: { server: "x", resumed: false, degraded: true } });
    expect(live.getStatus().state).toBe("delayed");
    live.unreachable();
    last().say({ state: "degraded" });
    expect(live.getStatus().state).toBe("offline");
    live.reached();
    expect(live.getStatus().state).toBe("delayed");
    last().say({ state: "ok" });
    expect(live.getStatus().state).toBe("live");
    last().say({ state: "degraded" });
    expect(live.getStatus().state).toBe("delayed");
    last().say({ topic: "cluster", seq: 2 });
    heard.mockClear();
    last().say({ topic: "cluster", seq: 3 });
    expect(heard).toHaveBeenCalledTimes(1);
    last().drop();
    vi.advanceTimersByTime(500);
    last().accept();
    expect(live.getStatus().state).toBe("live");
  });

  test("nonsense is ignored", () => {
    live.start();
    last().accept();
    last().onmessage?.({ data: "{" });
    last().say(null);
    last().say({ ping: 1 });
    expect(live.getStatus().state).toBe("live");
  });

  test("a lost socket: polling meanwhile, back-off, and everything told on return", () => {
    const heard = vi.fn();
    live.subscribe("cluster", heard);
    live.start();
    last().accept();
    heard.mockClear();
    last().drop();
    expect(live.getStatus().state).toBe("reconnecting");
    vi.advanceTimersByTime(500);
    expect(FakeSocket.all).toHaveLength(2);
    last().drop();
    expect(live.getStatus().state).toBe("reconnecting"); // nothing was answered yet
    live.reached();
    expect(live.getStatus().state).toBe("polling");
    vi.advanceTimersByTime(1000);
    expect(FakeSocket.all).toHaveLength(3);
    vi.advanceTimersByTime(POLL_MS);
    expect(heard.mock.calls.length).toBeGreaterThanOrEqual(1);
    heard.mockClear();
    last().accept();
    expect(heard).toHaveBeenCalledTimes(1);
    expect(last().sent).toEqual([{ subscribe: ["cluster"] }]);
    vi.advanceTimersByTime(POLL_MS * 3);
    expect(heard).toHaveBeenCalledTimes(1);
  });

  test("sequence numbers begin anew with a connection", () => {
    const heard = vi.fn();
    live.subscribe("cluster", heard);
    live.start();
    last().accept();
    last().say({ topic: "cluster", seq: 5 });
    last().drop();
    vi.advanceTimersByTime(500);
    last().accept();
    heard.mockClear();
    last().say({ topic: "cluster", seq: 5 });
    expect(heard).toHaveBeenCalledTimes(1);
  });

  test("a silent connection is given up", () => {
    live.start();
    last().accept();
    vi.advanceTimersByTime(41_000);
    expect(live.getStatus().state).not.toBe("live");
    expect(FakeSocket.all.length).toBeGreaterThan(1);
  });

  test("a server that answers one request and not another is not asked for everything in a circle", () => {
    const told = vi.fn();
    live.start();
    last().accept();
    live.subscribe("cluster", told);
    vi.advanceTimersByTime(ANSWER_MS);
    told.mockClear();
    for (let n = 0; n < 10; n++) {
      live.unreachable();
      live.reached();
      vi.advanceTimersByTime(POLL_MS / 20);
    }
    expect(told).toHaveBeenCalledTimes(1);
    // Nor is what came meanwhile forgotten.
    vi.advanceTimersByTime(POLL_MS);
    expect(told).toHaveBeenCalledTimes(2);
  });

  test("offline when REST fails too, and back when it answers", () => {
    live.start();
    last().accept();
    live.reached();
    last().drop();
    live.unreachable();
    expect(live.getStatus().state).toBe("offline");
    expect(live.getStatus().lastContactAt).not.toBeNull();
    live.reached();
    expect(live.getStatus().state).toBe("polling");
  });

  test("a dead server is found out at once, then asked for alone, and everything told when it answers", () => {
    const heard = vi.fn();
    live.subscribe("cluster", heard);
    live.start();
    last().accept();
    heard.mockClear();
    probe.mockImplementation(() => live.unreachable());
    last().drop();
    expect(probe).toHaveBeenCalledTimes(1);
    expect(live.getStatus().state).toBe("offline");
    vi.advanceTimersByTime(POLL_MS);
    expect(probe.mock.calls.length).toBeGreaterThan(1);
    expect(heard).not.toHaveBeenCalled();
    live.reached();
    expect(live.getStatus().state).toBe("polling");
    expect(heard).toHaveBeenCalledTimes(1);
  });

  test("not live while REST fails, even if hints arrive; live again with the first answer", () => {
    const heard = vi.fn();
    live.subscribe("cluster", heard);
    live.start();
    last().accept();
    live.unreachable();
    last().say({ topic: "cluster", seq: 2 });
    expect(live.getStatus().state).toBe("offline");
    probe.mockClear();
    vi.advanceTimersByTime(POLL_MS);
    expect(probe).toHaveBeenCalledTimes(1);
    live.reached();
    expect(live.getStatus().state).toBe("live");
    heard.mockClear();
    vi.advanceTimersByTime(POLL_MS * 2);
    expect(heard).not.toHaveBeenCalled();
  });

  test("a hidden tab sleeps and catches up when shown", () => {
    const heard = vi.fn();
    live.subscribe("cluster", heard);
    live.start();
    last().accept();
    vi.advanceTimersByTime(ANSWER_MS);
    heard.mockClear();
    live.setHidden(true);
    vi.advanceTimersByTime(31_000);
    expect(live.getStatus().state).toBe("asleep");
    vi.advanceTimersByTime(600_000);
    expect(heard).not.toHaveBeenCalled();
    expect(FakeSocket.all).toHaveLength(1);
    live.setHidden(false);
    expect(heard).toHaveBeenCalledTimes(1);
    expect(FakeSocket.all).toHaveLength(2);
  });

  test("a glance at another tab changes nothing", () => {
    live.start();
    last().accept();
    live.setHidden(true);
    vi.advanceTimersByTime(5000);
    live.setHidden(false);
    vi.advanceTimersByTime(30_000);
    expect(live.getStatus().state).toBe("live");
  });
});

test("coalesce: never two at once, and never a lost last call", async () => {
  let running = 0;
  let most = 0;
  let runs = 0;
  const hint = coalesce(async () => {
    running += 1;
    runs += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setTimeout(resolve, 100));
    running -= 1;
  }, 500);
  hint();
  hint();
  hint();
  await vi.advanceTimersByTimeAsync(2000);
  expect(most).toBe(1);
  expect(runs).toBe(2);
  hint();
  await vi.advanceTimersByTimeAsync(1000);
  expect(runs).toBe(3);
});
