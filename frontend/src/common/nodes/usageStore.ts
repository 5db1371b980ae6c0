/** How busy nodes were, as curves for a page of charts. */
import type { TrialSystemMetrics } from "../../api/queries";
import type { Line, Source } from "../../charts/series/lines";
import type { Columns, ChartSpec } from "../../lib/series/series";

/** Charts in the order they are shown, by the end of the names of their series. */
const CHARTS: readonly { id: string; series: RegExp }[] = [
  { id: "gpu/use_pct", series: /^gpu\/(\d+)\/use_pct$/ },
  { id: "gpu/memory_used_bytes", series: /^gpu\/(\d+)\/memory_used_bytes$/ },
  { id: "gpu/power_w", series: /^gpu\/(\d+)\/power_w$/ },
  { id: "gpu/temperature_c", series: /^gpu\/(\d+)\/temperature_c$/ },
  { id: "gpu/clock_mhz", series: /^gpu\/(\d+)\/clock_mhz$/ },
  { id: "gpu/throttled_pct", series: /^gpu\/(\d+)\/throttled_pct\/(.+)$/ },
  { id: "cpu/cpu_pct", series: /^()cpu_pct$/ },
  { id: "cpu/memory_used_bytes", series: /^()memory_used_bytes$/ },
  { id: "network/sent_bytes_per_s", series: /^net\/(.+)\/sent_bytes_per_s$/ },
  { id: "network/received_bytes_per_s", series: /^net\/(.+)\/received_bytes_per_s$/ },
  { id: "disk/disk_read_bytes_per_s", series: /^()disk_read_bytes_per_s$/ },
  { id: "disk/disk_written_bytes_per_s", series: /^()disk_written_bytes_per_s$/ },
  { id: "disk/disk_free_bytes", series: /^()disk_free_bytes$/ },
];

/** The curves of one answer. Points stay outside of component state; charts are told of a new answer. */
export class UsageStore {
  private data: TrialSystemMetrics | null = null;
  private startMs = 0;
  private range: { from?: number; to?: number } = {};
  private readonly made = new Map<string, Line[]>();
  private readonly listeners = new Set<() => void>();

  /** Take an answer. `startMs`: where relative time begins; `range`: the window, in units of the axis. */
  show(data: TrialSystemMetrics, startMs: number, range: { from?: number; to?: number }): void {
    if (data !== this.data || startMs !== this.startMs) this.made.clear();
    this.data = data;
    this.startMs = startMs;
    this.range = range;
  }

  /** Tell the charts to draw. */
  tell(): void {
    for (const listener of this.listeners) listener();
  }

  /** The charts that have curves; interfaces that carried nothing and reasons that slowed no GPU have none. */
  specs(): ChartSpec[] {
    return CHARTS.filter(({ id }) => this.linesOf(id).length > 0).map(({ id }) => ({
      id,
      group: id.slice(0, id.indexOf("/")),
      names: [id],
    }));
  }

  source(names: readonly string[]): Source {
    return {
      lines: () => names.flatMap((name) => this.linesOf(name)),
      subscribe: (listener) => {
        this.listeners.add(listener);
        return () => this.listeners.delete(listener);
      },
      range: () => this.range,
      ready: () => this.data !== null,
    };
  }

  private linesOf(id: string): Line[] {
    const known = this.made.get(id);
    if (known) return known;
    const chart = CHARTS.find((one) => one.id === id);
    const lines = chart && this.data ? linesOf(this.data, chart.series, this.startMs) : [];
    this.made.set(id, lines);
    return lines;
  }
}

/** One curve per node, attempt and part (a GPU or an interface); attempts of a node and part look alike. */
function linesOf(data: TrialSystemMetrics, series: RegExp, startMs: number): Line[] {
  const colors = new Map<string, number>();
  const attempts = new Set(data.items.map((item) => item.attempt_no));
  return data.items.flatMap((item) =>
    Object.entries(item.series).flatMap(([name, values]) => {
      const part = series.exec(name)?.slice(1).join(" ");
      if (part === undefined || (/^net\/|\/throttled_pct\//.test(name) && values.every((value) => !value))) return [];
      const of = [data.shown.length > 1 || part === "" ? item.node_name : "", part].filter(Boolean).join(" ");
      if (!colors.has(of)) colors.set(of, colors.size);
      return [
        {
          key: `${of}@${item.attempt_no}`,
          label: attempts.size > 1 ? `${of} (${item.attempt_no})` : of,
          columns: columnsOf(name, item.times, values),
          color: colors.get(of) ?? 0,
          along: { startMs },
        },
      ];
    }),
  );
}

/** Samples as points: there are no steps, so they are counted. What was not reported is left out. */
function columnsOf(name: string, times: readonly string[], values: readonly (number | null)[]): Columns {
  const at = values.flatMap((value, i) => (value === null ? [] : [i]));
  const value = Float64Array.from(at, (i) => values[i] ?? Number.NaN);
  return {
    name,
    rank: 0,
    bucketSteps: 1,
    numPoints: at.length,
    step: Float64Array.from(at, (_, no) => no),
    timeMs: Float64Array.from(at, (i) => Date.parse(times[i] ?? "")),
    min: value,
    max: value,
    mean: value,
    last: value,
    count: new Float64Array(at.length).fill(1),
  };
}
