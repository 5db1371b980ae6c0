/**
 * The window of log lines that a page holds: at most MAX_LINES, grown at either end by cursors, and
 * opened anywhere. Lines live here; components are told to look again.
 */
import type { Schemas } from "../../api/client";

export type LogLine = Schemas["LogLine"];
export type LogPage = Schemas["LogPage"];

export const MAX_LINES = 20_000;
export const PAGE_LINES = 500;
/** So long a search of older lines goes on by itself; after that it waits to be asked. */
export const SEARCH_MS = 20_000;
/** Lines above the place that a window is opened at. */
const ABOVE_LINES = 100;

/** Where a window opens; `line` is "stream_id:no", `time` ISO 8601. */
export type LogStart = { from: "head" | "tail" } | { line: string } | { time: string } | { fraction: number };

export interface LogAsk {
  cursor?: string;
  from?: "head" | "tail";
  line?: string;
  time?: string;
  fraction?: number;
  limit: number;
}

export const lineKey = (line: Pick<LogLine, "stream_id" | "no">): string => `${line.stream_id}:${line.no}`;
const sameLine = (a: LogLine, b: LogLine): boolean => a.stream_id === b.stream_id && a.no === b.no;

/** New lines at the end; a line whose end had not arrived is replaced where it stands. */
function append(held: LogLine[], fresh: LogLine[]): LogLine[] {
  const out = [...held];
  // At most one per stream, so few; looked up once, not per new line.
  const open = out.flatMap((line, at) => (line.partial ? [at] : []));
  for (const line of fresh) {
    const unfinished = open.find((at) => sameLine(out[at] as LogLine, line));
    if (unfinished !== undefined) out[unfinished] = line;
    else out.push(line);
  }
  return out;
}

export class LogFeed {
  lines: LogLine[] = [];
  complete = false;
  loaded = false;
  /** The window reaches the end of the log as it is by now; only then new lines come by themselves. */
  atEnd = false;
  numLines = 0;
  truncated: string[] = [];
  error: Error | null = null;
  loadingOlder = false;
  loadingNewer = false;
  /** A search ran out of time; older lines have not been looked at yet. */
  searchStopped = false;
  /** A search goes on through older lines by itself. */
  searching = false;
  /** Lines that a search has looked at so far, and older ones that it has not; null: no search. */
  searched: { numLines: number; leftLines: number } | null = null;
  /** Streams that are not read, as there are too many at once, and before when all of their lines are. */
  left: LogPage["left"] = null;
  /** Lines dropped from the top to stay bounded. */
  dropped = 0;
  version = 0;
  private placeAt = 0;
  private older: string | null = null;
  private newer: string | null = null;
  private reading = false;
  private again = false;
  private stopped = false;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly fetchPage: (ask: LogAsk, signal: AbortSignal) => Promise<LogPage>) {}

  private abort = new AbortController();

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getVersion = (): number => this.version;

  get hasOlder(): boolean {
    return this.older !== null || this.dropped > 0;
  }

  /** The line that the window was last opened at; undefined when nothing comes from there on. */
  firstOfPlace(): LogLine | undefined {
    return this.lines[this.placeAt];
  }

  /** Throw the window away and open it elsewhere. */
  async open(start: LogStart): Promise<void> {
    this.abort.abort();
    const abort = new AbortController();
    this.abort = abort;
    this.loadingOlder = this.loadingNewer = this.again = false;
    this.reading = true;
    try {
      const page = await this.fetchPage({ ...start, limit: PAGE_LINES }, abort.signal);
      const isTail = "from" in start && start.from === "tail";
      // Without lines above it, a place would stand at the very top and look like the beginning.
      const above =
        !isTail && page.older !== null
          ? await this.fetchPage({ cursor: page.older, limit: ABOVE_LINES }, abort.signal)
          : null;
      if (abort.signal.aborted) return;
      this.lines = above ? above.lines.concat(page.lines) : [...page.lines];
      this.placeAt = above?.lines.length ?? 0;
      this.older = above ? above.older : page.older;
      this.newer = page.newer;
      this.atEnd = page.at_end;
      this.dropped = 0;
      this.searchStopped = isTail ? page.search_stopped : (above?.search_stopped ?? false);
      const told = isTail ? page.searched : (above ?? page).searched;
      this.searched =
        page.searched && told
          ? {
              numLines: page.searched.num_lines + (above?.searched?.num_lines ?? 0),
              leftLines: isTail || above ? told.left_lines : 0,
            }
          : null;
      this.loaded = true;
      this.take(page);
    } catch (error) {
      if (!abort.signal.aborted) this.fail(error);
    } finally {
      if (this.abort === abort) this.reading = false;
    }
    if (this.abort === abort && this.again) await this.poll();
  }

  /** Read what is new; the first call opens at the tail. Calls during a read are one more read. */
  async poll(): Promise<void> {
    if (this.reading) {
      this.again = true;
      return;
    }
    if (!this.loaded) {
      await this.open({ from: "tail" });
      return;
    }
    this.again = false;
    if (!this.atEnd || this.newer === null) return;
    const abort = this.abort;
    this.reading = true;
    try {
      for (;;) {
        const page = await this.fetchPage({ cursor: this.newer, limit: PAGE_LINES }, abort.signal);
        if (abort.signal.aborted) return;
        this.addNewer(page, page.lines);
        this.take(page);
        if (page.at_end && !this.again) break;
        this.again = false;
      }
    } catch (error) {
      if (!abort.signal.aborted) this.fail(error);
    } finally {
      if (this.abort === abort) this.reading = false;
    }
  }

  /** Read one page before the first line. Returns how many lines were added at the top. */
  async loadOlder(): Promise<number> {
    const first = this.lines[0];
    if (this.loadingOlder || !this.hasOlder) return 0;
    const abort = this.abort;
    this.loadingOlder = true;
    this.tell();
    try {
      if (this.older === null && first) {
        // The cursor went with the lines that were dropped; ask for it anew.
        this.older = (await this.fetchPage({ line: lineKey(first), limit: 1 }, abort.signal)).older;
      }
      this.dropped = 0;
      if (this.older === null) return 0;
      const page = await this.fetchPage({ cursor: this.older, limit: PAGE_LINES }, abort.signal);
      if (abort.signal.aborted) return 0;
      this.older = page.older;
      this.searchStopped = page.search_stopped;
      if (this.searched && page.searched)
        this.searched = {
          numLines: this.searched.numLines + page.searched.num_lines,
          leftLines: page.searched.left_lines,
        };
      this.lines = page.lines.concat(this.lines);
      if (this.lines.length > MAX_LINES) {
        this.lines = this.lines.slice(0, MAX_LINES);
        this.atEnd = false;
        this.complete = false;
        this.newer = null;
      }
      this.error = null;
      return page.lines.length;
    } catch (error) {
      if (!abort.signal.aborted) this.fail(error);
      return 0;
    } finally {
      if (this.abort === abort) this.loadingOlder = false;
      this.tell();
    }
  }

  /**
   * Search older lines until a page is full of matches, all lines were looked at, the search fails, or
   * `limitMs` have passed.
   */
  async searchOn(limitMs = SEARCH_MS): Promise<void> {
    const { signal } = this.abort;
    const until = performance.now() + limitMs;
    const goesOn = (): boolean =>
      this.searchStopped && this.error === null && !this.loadingOlder && !signal.aborted && performance.now() < until;
    if (this.searching || !goesOn()) return;
    this.searching = true;
    while (goesOn()) await this.loadOlder();
    this.searching = false;
    this.tell();
  }

  /** Read one page behind the last line of a window that does not reach the end. Returns how many
   *  lines were dropped at the top for it. */
  async loadNewer(): Promise<number> {
    const last = this.lines.at(-1);
    if (this.loadingNewer || !this.loaded || this.atEnd) return 0;
    const abort = this.abort;
    this.loadingNewer = true;
    this.tell();
    try {
      const ask: LogAsk =
        this.newer === null && last
          ? { line: lineKey(last), limit: PAGE_LINES }
          : { cursor: this.newer ?? undefined, limit: PAGE_LINES };
      const page = await this.fetchPage(ask, abort.signal);
      if (abort.signal.aborted) return 0;
      const dropped = this.addNewer(
        page,
        last && ask.line ? page.lines.filter((line) => !sameLine(line, last)) : page.lines,
      );
      this.take(page);
      return dropped;
    } catch (error) {
      if (!abort.signal.aborted) this.fail(error);
      return 0;
    } finally {
      if (this.abort === abort) this.loadingNewer = false;
      this.tell();
    }
  }

  stop(): void {
    this.stopped = true;
    this.abort.abort();
    this.listeners.clear();
  }

  private addNewer(page: LogPage, lines: LogLine[]): number {
    this.lines = append(this.lines, lines);
    this.newer = page.newer;
    this.atEnd = page.at_end;
    if (this.searched && page.searched)
      this.searched = { ...this.searched, numLines: this.searched.numLines + page.searched.num_lines };
    const cut = Math.max(0, this.lines.length - MAX_LINES);
    if (cut > 0) {
      this.lines = this.lines.slice(cut);
      this.dropped += cut;
      this.older = null;
    }
    return cut;
  }

  private take(page: LogPage): void {
    this.complete = page.complete;
    this.left = page.left;
    this.numLines = page.num_lines;
    this.truncated = page.truncated_streams;
    this.error = null;
    this.tell();
  }

  private fail(error: unknown): void {
    this.error = error instanceof Error ? error : new Error(String(error));
    this.tell();
  }

  private tell(): void {
    if (this.stopped) return;
    this.version += 1;
    for (const listener of this.listeners) listener();
  }
}
