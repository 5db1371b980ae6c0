/**
 * The window of log lines that a page holds: at most MAX_LINES, grown at either end by cursors.
 * Lines live here; components are told to look again.
 */
import type { Schemas } from "../../api/client";

export type LogLine = Schemas["LogLine"];
export type LogPage = Schemas["LogPage"];

export const MAX_LINES = 20_000;
export const PAGE_LINES = 500;

export interface LogAsk {
  cursor?: string;
  from?: "head" | "tail";
  limit: number;
}

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
  numLines = 0;
  truncated: string[] = [];
  error: Error | null = null;
  loadingOlder = false;
  /** A text search ran out of time; older lines have not been looked at yet. */
  searchStopped = false;
  /** Lines dropped from the top to stay bounded. */
  dropped = 0;
  version = 0;
  private older: string | null = null;
  private newer: string | null = null;
  private reading = false;
  private again = false;
  private stopped = false;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly fetchPage: (ask: LogAsk, signal: AbortSignal) => Promise<LogPage>) {}

  private readonly abort = new AbortController();

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getVersion = (): number => this.version;

  get hasOlder(): boolean {
    return this.older !== null;
  }

  /** Read what is new; the first call opens at the tail. Calls during a read are one more read. */
  async poll(): Promise<void> {
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    try {
      for (;;) {
        const first = !this.loaded;
        const page = await this.fetchPage(
          first || this.newer === null ? { from: "tail", limit: PAGE_LINES } : { cursor: this.newer, limit: PAGE_LINES },
          this.abort.signal,
        );
        if (this.stopped) return;
        if (first || this.newer === null) {
          this.older = page.older;
          this.searchStopped = page.search_stopped;
          this.lines = [...page.lines];
        } else {
          this.lines = append(this.lines, page.lines);
          if (this.lines.length > MAX_LINES) {
            const cut = this.lines.length - MAX_LINES;
            this.lines = this.lines.slice(cut);
            this.dropped += cut;
            this.older = null; // its cursor belongs to lines that are gone
          }
        }
        this.loaded = true;
        this.newer = page.newer ?? this.newer;
        this.complete = page.complete;
        this.numLines = page.num_lines;
        this.truncated = page.truncated_streams;
        this.error = null;
        this.tell();
        const full = !first && (page.lines.length >= PAGE_LINES || page.search_stopped);
        if (!full && !this.again) break;
        this.again = false;
      }
    } catch (error) {
      if (this.stopped) return;
      this.error = error instanceof Error ? error : new Error(String(error));
      this.tell();
    } finally {
      this.reading = false;
    }
  }

  /** Read one page before the first line. Returns how many lines were added at the top. */
  async loadOlder(): Promise<number> {
    if (this.loadingOlder || this.older === null || this.lines.length >= MAX_LINES) return 0;
    this.loadingOlder = true;
    this.tell();
    try {
      const page = await this.fetchPage({ cursor: this.older, limit: PAGE_LINES }, this.abort.signal);
      if (this.stopped) return 0;
      this.older = page.older;
      this.searchStopped = page.search_stopped;
      this.lines = page.lines.concat(this.lines);
      return page.lines.length;
    } catch (error) {
      if (!this.stopped) this.error = error instanceof Error ? error : new Error(String(error));
      return 0;
    } finally {
      this.loadingOlder = false;
      this.tell();
    }
  }

  stop(): void {
    this.stopped = true;
    this.abort.abort();
    this.listeners.clear();
  }

  private tell(): void {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }
}
