/**
 * The points behind a page's charts. They live here as typed arrays and never enter component state:
 * a chart subscribes, and is told to draw what is there now: at once what it waits for, and of what is
 * reported later at most every NOTIFY_MS.
 */
import type { Schemas } from "../../api/client";
import { stepsWithin } from "../../lib/series/axis";
import { type Columns, mergeTail, tailStart, toColumns } from "../../lib/series/series";

export interface Range {
  from?: number;
  to?: number;
}

export type SeriesReply = Schemas["SeriesReply"];
type Attempts = Schemas["Series"]["attempts"];

export interface Ask {
  names: string[];
  /** null: every rank. */
  ranks: number[] | null;
  from?: number;
  to?: number;
  maxPoints: number;
}

const NOTIFY_MS = 500;
export const NAMES_PER_REQUEST = 12;
/** Of a curve, unless another number is asked for. */
export const POINTS_MAX = 1000;
const BATCH_MS = 20;

export class SeriesStore {
  private readonly columns = new Map<string, Map<number, Columns>>();
  private readonly wanted = new Map<string, number>();
  /** Metrics whose first answer in this window is on its way. */
  private asked = new Set<string>();
  /** Who is told, and of which metrics; null: of all. */
  private readonly listeners = new Map<() => void, ReadonlySet<string> | null>();
  private readonly changed = new Set<string>();
  private allChanged = false;
  private range: Range = {};
  private ranks: number[] | null = [0];
  private generation = 0;
  private notifiedAt = 0;
  private notifyTimer: ReturnType<typeof setTimeout> | null = null;
  private notifiesNow = false;
  private batchTimer: ReturnType<typeof setTimeout> | null = null;
  private isBatched = false;
  private inFlight: Promise<void> | null = null;
  private dirty = false;
  /** Metric → rank → the attempts that its curve is made of. */
  private readonly attempts = new Map<string, Map<number, Attempts>>();
  /** When each step of the whole curve was logged; a window of time is found with it. */
  private clock: Pick<Columns, "step" | "timeMs"> | null = null;
  private time: { fromMs?: number; toMs?: number } | null = null;
  truncatedTo: number | null = null;
  error: Error | null = null;

  constructor(
    private readonly fetchSeries: (ask: Ask, signal: AbortSignal) => Promise<SeriesReply>,
    private readonly maxPoints = POINTS_MAX,
    /** False: every refresh reads the whole window (few buckets that must all be equally wide). */
    private readonly incremental = true,
  ) {}

  private abort = new AbortController();

  /** Ask for a metric while the returned function is not called. */
  want(name: string): () => void {
    this.wanted.set(name, (this.wanted.get(name) ?? 0) + 1);
    if (!this.columns.has(name)) this.schedule();
    return () => {
      const left = (this.wanted.get(name) ?? 1) - 1;
      if (left > 0) this.wanted.set(name, left);
      else this.wanted.delete(name);
    };
  }

  get(name: string): Columns[] {
    const byRank = this.columns.get(name);
    return byRank ? [...byRank.values()].toSorted((a, b) => a.rank - b.rank) : [];
  }

  /** The step from which each later attempt goes on with the first of these metrics that it reported. */
  restarts(names: readonly string[]): number[] {
    const found = new Map<number, number>();
    for (const { no, first_step } of names.flatMap((name) => [...(this.attempts.get(name)?.values() ?? [])].flat())) {
      if (no > 1) found.set(no, Math.min(first_step, found.get(no) ?? first_step));
    }
    return [...found.values()].toSorted((a, b) => a - b);
  }

  /** Whether an answer for this metric has arrived in the current window. */
  has(name: string): boolean {
    return this.columns.has(name);
  }

  getRange(): Range {
    return this.range;
  }

  /** names: nothing else makes a difference to the listener, but for errors. */
  subscribe(listener: () => void, names?: readonly string[]): () => void {
    this.listeners.set(listener, names ? new Set(names) : null);
    return () => this.listeners.delete(listener);
  }

  /** Change window or ranks; what is there stays visible until the answer comes. */
  configure(range: Range, ranks: number[] | null): void {
    this.time = null;
    this.apply(range, ranks);
  }

  /** The same by time (ms since 1970). The steps in it are known once the whole curve was read. */
  configureTime(fromMs: number | undefined, toMs: number | undefined, ranks: number[] | null): void {
    this.time = fromMs === undefined && toMs === undefined ? null : { fromMs, toMs };
    this.apply(this.time && this.clock ? stepsWithin(this.clock, fromMs, toMs) : {}, ranks);
  }

  private apply(range: Range, ranks: number[] | null): void {
    const sameRanks = JSON.stringify(ranks) === JSON.stringify(this.ranks);
    if (sameRanks && range.from === this.range.from && range.to === this.range.to) return;
    this.range = range;
    this.ranks = ranks;
    this.reload();
  }

  /** Read everything wanted again from scratch. */
  reload(): void {
    this.generation += 1;
    this.abort.abort();
    this.abort = new AbortController();
    this.inFlight = null;
    this.asked = new Set();
    this.allChanged = true;
    this.notify(true);
    void this.load(false);
  }

  /** Something new was reported: read what can have changed. */
  refresh = (): Promise<void> => {
    if (this.inFlight) {
      this.dirty = true;
      return this.inFlight;
    }
    return this.load(this.incremental);
  };

  dispose(): void {
    this.abort.abort();
    if (this.notifyTimer) clearTimeout(this.notifyTimer);
    if (this.batchTimer) clearTimeout(this.batchTimer);
  }

  private schedule(): void {
    if (this.batchTimer || this.isBatched) return;
    if (this.columns.size === 0) {
      // All that a page draws at first is wanted in one go; what comes into view later, bit by bit.
      this.isBatched = true;
      queueMicrotask(() => {
        this.isBatched = false;
        void this.load(true, false);
      });
      return;
    }
    this.batchTimer = setTimeout(() => {
      this.batchTimer = null;
      void this.load(true, false);
    }, BATCH_MS);
  }

  /** withKnown: also what is there already, from where it may have changed. */
  private load(incremental: boolean, withKnown = true): Promise<void> {
    const generation = this.generation;
    const run = async (): Promise<void> => {
      const names = [...this.wanted.keys()];
      const fresh = names.filter((name) => !this.asked.has(name) && (!incremental || !this.columns.has(name)));
      const known = names.filter((name) => withKnown && incremental && this.columns.has(name));
      const jobs: Promise<void>[] = [];
      for (let i = 0; i < fresh.length; i += NAMES_PER_REQUEST) {
        jobs.push(this.read(fresh.slice(i, i + NAMES_PER_REQUEST), null, generation));
      }
      for (let i = 0; i < known.length; i += NAMES_PER_REQUEST) {
        const chunk = known.slice(i, i + NAMES_PER_REQUEST);
        jobs.push(this.read(chunk, this.tailOf(chunk), generation));
      }
      const before = this.error;
      try {
        await Promise.all(jobs);
        if (generation === this.generation) this.error = null;
      } catch (error) {
        if (generation !== this.generation || this.abort.signal.aborted) return;
        this.error = error instanceof Error ? error : new Error(String(error));
      }
      if (this.error !== before) this.allChanged = true;
      this.notify();
    };
    const promise = run().finally(() => {
      if (this.inFlight !== promise) return;
      this.inFlight = null;
      if (this.dirty) {
        this.dirty = false;
        void this.load(this.incremental);
      }
    });
    this.inFlight = promise;
    return promise;
  }

  /** Where a refresh may start for these metrics; null when a full read is due. */
  private tailOf(names: string[]): number | null {
    let from = Number.POSITIVE_INFINITY;
    for (const name of names) {
      for (const columns of this.columns.get(name)?.values() ?? []) {
        if (columns.step.length > this.maxPoints * 1.5) return null;
        from = Math.min(from, tailStart(columns));
      }
    }
    return Number.isFinite(from) ? from : null;
  }

  private async read(names: string[], from: number | null, generation: number): Promise<void> {
    if (names.length === 0) return;
    if (from !== null && this.range.to !== undefined && from > this.range.to) return; // a closed window
    const { asked } = this;
    if (from === null) for (const name of names) asked.add(name);
    const reply = await this.fetchSeries(
      {
        names,
        ranks: this.ranks,
        from: from === null ? this.range.from : Math.max(from, this.range.from ?? 0),
        to: this.range.to,
        maxPoints: this.maxPoints,
      },
      this.abort.signal,
    ).finally(() => {
      if (from === null) for (const name of names) asked.delete(name);
    });
    if (generation !== this.generation) return;
    this.truncatedTo = reply.truncated ? reply.series.length : null;
    // An attempt that is new to a curve hides points of it that we hold.
    const hiding = new Set(reply.series.filter((one) => this.learnAttempts(one) && from !== null).map((s) => s.name));
    const seen = new Map<string, Map<number, Columns>>(
      names.filter((name) => !hiding.has(name)).map((name) => [name, new Map()]),
    );
    for (const series of reply.series) {
      const tail = toColumns(series);
      const head = from === null ? undefined : this.columns.get(series.name)?.get(series.rank);
      const merged = head && from !== null ? mergeTail(head, tail, from) : tail;
      seen.get(series.name)?.set(series.rank, merged);
    }
    for (const [name, byRank] of seen) {
      if (from !== null) {
        for (const [rank, columns] of this.columns.get(name) ?? []) {
          if (!byRank.has(rank)) byRank.set(rank, columns);
        }
      }
      this.columns.set(name, byRank);
      this.changed.add(name);
    }
    this.learnTimes();
    // Somebody waits for a chart that is empty, or for a window that he has just chosen.
    this.notify(from === null);
    await this.read([...hiding], null, generation);
  }

  /** Return whether the curve is made of other attempts than before. */
  private learnAttempts({ name, rank, attempts }: SeriesReply["series"][number]): boolean {
    const ofMetric = this.attempts.get(name) ?? new Map<number, Attempts>();
    this.attempts.set(name, ofMetric);
    const before = ofMetric.get(rank);
    ofMetric.set(rank, attempts);
    return before !== undefined && JSON.stringify(before) !== JSON.stringify(attempts);
  }

  /** Only a read without a window knows the times of all steps. */
  private learnTimes(): void {
    if (this.range.from !== undefined || this.range.to !== undefined) return;
    for (const byRank of this.columns.values()) {
      for (const columns of byRank.values()) {
        if (columns.step.length > (this.clock?.step.length ?? 0)) this.clock = columns;
      }
    }
    if (this.time && this.clock) this.apply(stepsWithin(this.clock, this.time.fromMs, this.time.toMs), this.ranks);
  }

  private notify(now = false): void {
    if (this.notifyTimer) {
      if (!now || this.notifiesNow) return;
      clearTimeout(this.notifyTimer);
    }
    this.notifiesNow = now;
    const wait = now ? 0 : Math.max(0, this.notifiedAt + NOTIFY_MS - Date.now());
    this.notifyTimer = setTimeout(() => {
      this.notifyTimer = null;
      this.notifiedAt = Date.now();
      const changed = this.allChanged ? null : new Set(this.changed);
      this.allChanged = false;
      this.changed.clear();
      if (changed?.size === 0) return;
      for (const [listener, names] of this.listeners) {
        if (names === null || changed === null || [...changed].some((name) => names.has(name))) listener();
      }
    }, wait);
  }
}
