/**
 * The live channel: one WebSocket per tab that says "topic X changed"; the data come by REST.
 *
 * Guarantees: a subscriber is told at least once after every change it could have missed, also over
 * reconnects (the server answers each subscription with a hint; that of a page that is being opened
 * counts ANSWER_MS later, since the page has only just asked for everything, and not at all if the topic
 * has not changed since SETTLED_MS before). While the socket is away, every topic is told each
 * POLL_MS instead; while the server cannot be reached at all, it is only asked whether it is back, and
 * its first answer tells every topic. A hidden tab closes the socket and tells nobody; becoming visible
 * tells everybody.
 */

/** "delayed": connected, but the server hears of changes by a timer only (its Redis is away). */
export type LiveState = "connecting" | "live" | "delayed" | "reconnecting" | "polling" | "offline" | "asleep";

export interface LiveStatus {
  state: LiveState;
  /** When data last arrived from the server, ms; null before the first time. */
  lastContactAt: number | null;
}

interface Socket {
  send(data: string): void;
  close(): void;
  onopen: (() => void) | null;
  onclose: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  readyState: number;
}

export const POLL_MS = 2000;
export const ANSWER_MS = 1000;
/** No query with a topic shows an answer that is older than this when its page opens. */
export const SETTLED_MS = 65_000;
const SILENCE_MS = 40_000; // the server pings every 15 s
const HIDDEN_GRACE_MS = 30_000;
const BACKOFF_MS = [500, 1000, 2000, 4000, 8000];
const OPEN = 1;

type Listener = () => void;

/** What the server may say; anything else is passed over. */
interface Message {
  topic?: unknown;
  seq?: unknown;
  quiet_s?: unknown;
  hello?: { degraded?: unknown };
  state?: unknown;
}

export class LiveClient {
  private socket: Socket | null = null;
  private readonly topics = new Map<string, Set<Listener>>();
  private readonly seqs = new Map<string, number>();
  /** When each topic got its first listener, ms. */
  private readonly subscribedAt = new Map<string, number>();
  private readonly statusListeners = new Set<Listener>();
  private status: LiveStatus = { state: "connecting", lastContactAt: null };
  private failures = 0;
  /** The last REST request could not be made. */
  private unreached = false;
  /** The current socket has said something. */
  private greeted = false;
  private greetings = 0;
  /** Topics whose subscription was answered, until their listeners are told of it. */
  private readonly answered = new Map<string, ReturnType<typeof setTimeout>>();
  /** The server says that its hints come from a timer. */
  private degraded = false;
  private running = false;
  private hidden = false;
  private retryTimer: ReturnType<typeof setTimeout> | null = null;
  private silenceTimer: ReturnType<typeof setTimeout> | null = null;
  private pollTimer: ReturnType<typeof setInterval> | null = null;
  private hideTimer: ReturnType<typeof setTimeout> | null = null;
  private catchUpTimer: ReturnType<typeof setTimeout> | null = null;
  /** When every topic was told last, ms. */
  private toldAllAt = -Infinity;

  constructor(
    private readonly open: () => Socket,
    private readonly random: () => number = Math.random,
    /** Asks the server for anything; its outcome comes back as `reached` or `unreachable`. */
    private readonly probe: () => void = () => {},
  ) {}

  start(): void {
    if (this.running) return;
    this.running = true;
    this.connect();
  }

  stop(): void {
    this.running = false;
    this.disconnect();
    this.stopPolling();
    if (this.retryTimer) clearTimeout(this.retryTimer);
    if (this.hideTimer) clearTimeout(this.hideTimer);
    if (this.catchUpTimer) clearTimeout(this.catchUpTimer);
    this.retryTimer = this.hideTimer = this.catchUpTimer = null;
    this.forgetAnswers();
    this.greetings = 0;
    this.failures = 0;
    this.set({ state: "connecting", lastContactAt: null });
  }

  /** `listener` runs whenever the topic may have changed. Returns how to end it. */
  subscribe(topic: string, listener: Listener): () => void {
    let listeners = this.topics.get(topic);
    if (!listeners) {
      listeners = new Set();
      this.topics.set(topic, listeners);
      this.subscribedAt.set(topic, Date.now());
      this.send({ subscribe: [topic] });
    }
    listeners.add(listener);
    return () => {
      const current = this.topics.get(topic);
      if (!current?.delete(listener) || current.size > 0) return;
      this.topics.delete(topic);
      this.subscribedAt.delete(topic);
      this.seqs.delete(topic);
      this.send({ unsubscribe: [topic] });
    };
  }

  getStatus = (): LiveStatus => this.status;

  /** The channel broke, and nothing has been answered since. */
  isCutOff(): boolean {
    return this.status.state === "reconnecting" || this.status.state === "offline";
  }

  onStatus = (listener: Listener): (() => void) => {
    this.statusListeners.add(listener);
    return () => this.statusListeners.delete(listener);
  };

  /** A REST answer arrived: the server is there, even if the socket is not. */
  reached(): void {
    this.unreached = false;
    const now = Date.now();
    const stale = now - (this.status.lastContactAt ?? 0) > 1000;
    const { state } = this.status;
    if (state === "offline") {
      if (this.greeted) this.stopPolling();
      this.set({ state: this.greeted ? this.connected() : "polling", lastContactAt: now });
      this.catchUp();
    } else if (state === "reconnecting" && this.failures > 1) {
      this.set({ state: "polling", lastContactAt: now });
    } else if (stale) this.set({ ...this.status, lastContactAt: now });
  }

  /** A REST request could not be made. */
  unreachable(): void {
    this.unreached = true;
    this.forgetAnswers();
    if (!this.running || this.status.state === "asleep") return;
    // Hints alone are no data: without REST the page is old, whatever the socket says.
    this.set({ ...this.status, state: "offline" });
    this.startPolling();
  }

  setHidden(hidden: boolean): void {
    if (hidden === this.hidden) return;
    this.hidden = hidden;
    if (this.hideTimer) clearTimeout(this.hideTimer);
    this.hideTimer = null;
    if (!this.running) return;
    if (hidden) {
      this.hideTimer = setTimeout(() => this.sleep(), HIDDEN_GRACE_MS);
    } else if (this.status.state === "asleep") {
      this.failures = 0;
      this.set({ ...this.status, state: "connecting" });
      this.tellAll();
      this.connect();
    }
  }

  private sleep(): void {
    this.disconnect();
    this.stopPolling();
    if (this.retryTimer) clearTimeout(this.retryTimer);
    this.retryTimer = null;
    this.set({ ...this.status, state: "asleep" });
  }

  private connect(): void {
    this.retryTimer = null;
    let socket: Socket;
    try {
      socket = this.open();
    } catch {
      this.lost();
      return;
    }
    this.socket = socket;
    this.armSilence();
    this.greeted = false;
    socket.onopen = () => {
      this.seqs.clear();
      if (this.topics.size > 0) this.send({ subscribe: [...this.topics.keys()] });
    };
    socket.onmessage = (event) => {
      if (this.socket === socket) this.receive(event.data);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.lost();
    };
  }

  private receive(data: unknown): void {
    this.armSilence();
    let message: unknown;
    try {
      message = JSON.parse(String(data));
    } catch {
      return;
    }
    if (typeof message !== "object" || message === null) return;
    const { topic, seq, hello, state, quiet_s: quietS } = message as Message;
    if (hello) this.degraded = hello.degraded === true;
    else if (state === "degraded" || state === "ok") this.degraded = state === "degraded";
    const first = !this.greeted;
    if (first) {
      // Whatever happened while we were away is fetched once: the server's hint for each subscription follows.
      this.greeted = true;
      this.greetings += 1;
      this.failures = 0;
      this.unreached = false;
      this.stopPolling();
      this.set({ state: this.connected(), lastContactAt: Date.now() });
    } else if (!this.unreached) {
      this.reached();
      if (state !== undefined) this.set({ ...this.status, state: this.connected() });
    }
    if (typeof topic !== "string" || first) return;
    if (typeof seq === "number") {
      const before = this.seqs.get(topic);
      if (seq === before) return; // told already
      this.seqs.set(topic, seq);
      // After a break it may be long ago that anything was asked for.
      if (before === undefined && this.greetings === 1) {
        const elapsedMs = Date.now() - (this.subscribedAt.get(topic) ?? 0);
        if (typeof quietS === "number" && quietS * 1000 > elapsedMs + SETTLED_MS) return;
        return this.tellSoon(topic);
      }
    }
    this.tell(topic);
  }

  private tellSoon(topic: string): void {
    clearTimeout(this.answered.get(topic));
    this.answered.set(
      topic,
      setTimeout(() => this.tell(topic), ANSWER_MS),
    );
  }

  private connected(): LiveState {
    return this.degraded ? "delayed" : "live";
  }

  private lost(): void {
    this.greeted = false;
    this.forgetAnswers();
    if (this.silenceTimer) clearTimeout(this.silenceTimer);
    if (!this.running || this.status.state === "asleep") return;
    this.failures += 1;
    // "polling" is said by the first answer that polling gets, not before.
    const isPolling = this.status.state === "polling";
    this.set({ ...this.status, state: this.unreached ? "offline" : isPolling ? "polling" : "reconnecting" });
    this.startPolling();
    if (!this.hidden) this.probe();
    const base = BACKOFF_MS[Math.min(this.failures, BACKOFF_MS.length) - 1] ?? 8000;
    this.retryTimer = setTimeout(() => this.connect(), base * (0.5 + this.random() / 2));
  }

  private disconnect(): void {
    if (this.silenceTimer) clearTimeout(this.silenceTimer);
    const socket = this.socket;
    this.socket = null;
    this.greeted = false;
    this.forgetAnswers();
    socket?.close();
  }

  private armSilence(): void {
    if (this.silenceTimer) clearTimeout(this.silenceTimer);
    this.silenceTimer = setTimeout(() => {
      this.disconnect();
      this.lost();
    }, SILENCE_MS);
  }

  private startPolling(): void {
    if (this.pollTimer) return;
    this.pollTimer = setInterval(() => {
      if (this.hidden) return;
      if (this.status.state === "offline") this.probe();
      else this.tellAll();
    }, POLL_MS);
  }

  private stopPolling(): void {
    if (this.pollTimer) clearInterval(this.pollTimer);
    this.pollTimer = null;
  }

  /**
   * Tell every topic, since the server is back: at most once in POLL_MS. When it answers one request and not
   * another, it is back after every other one, and each time would make everything be asked for again at once.
   */
  private catchUp(): void {
    const waitMs = this.toldAllAt + POLL_MS - Date.now();
    if (waitMs <= 0) return this.tellAll();
    this.catchUpTimer ??= setTimeout(() => {
      this.catchUpTimer = null;
      if (this.status.state !== "offline" && this.status.state !== "asleep") this.tellAll();
    }, waitMs);
  }

  private tellAll(): void {
    this.toldAllAt = Date.now();
    for (const topic of this.topics.keys()) this.tell(topic);
  }

  /** Everything is told anyway when the server is there again, or the tab is shown. */
  private forgetAnswers(): void {
    for (const timer of this.answered.values()) clearTimeout(timer);
    this.answered.clear();
  }

  private tell(topic: string): void {
    clearTimeout(this.answered.get(topic));
    this.answered.delete(topic);
    for (const listener of this.topics.get(topic) ?? []) listener();
  }

  private send(message: unknown): void {
    if (this.socket?.readyState === OPEN) this.socket.send(JSON.stringify(message));
  }

  private set(next: LiveStatus): void {
    if (next.state === this.status.state && next.lastContactAt === this.status.lastContactAt) return;
    this.status = next;
    for (const listener of this.statusListeners) listener();
  }
}

/**
 * Runs `task` for every call, never twice at once: calls that come while it runs are answered by one
 * more run at the end, at least `gapMs` after the last one started.
 */
export function coalesce(task: () => Promise<unknown>, gapMs = 500): () => void {
  let running = false;
  let again = false;
  const run = async (): Promise<void> => {
    running = true;
    const startedAt = Date.now();
    try {
      await task();
    } catch {
      // The query shows its own error; the next hint tries again.
    }
    const rest = gapMs - (Date.now() - startedAt);
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
    running = false;
    if (again) {
      again = false;
      void run();
    }
  };
  return () => {
    if (running) again = true;
    else void run();
  };
}
