import type { SystemMetrics } from "../../api/queries";

type Label =
  | "cpu_pct"
  | "memory_used_bytes"
  | "disk_free_bytes"
  | "disk_read_bytes_per_s"
  | "disk_written_bytes_per_s"
  | "sent"
  | "received"
  | "gpuUse"
  | "gpuMemory"
  | "gpuPower"
  | "gpuTemperature"
  | "gpuClock"
  | "throttled_power_cap"
  | "throttled_heat"
  | "throttled_board"
  | "throttled_power_supply";

export interface SystemRow {
  name: string;
  label: Label;
  /** The interface. */
  of: string;
  /** Of a GPU. */
  index: number | null;
  unit: "pct" | "bytes" | "bytes_per_s" | "W" | "°C" | "MHz";
  values: (number | null)[];
  last: number | null;
  most: number | null;
  /** The upper end of the line's scale. */
  top: number;
}

const OF_NODE: [Label, SystemRow["unit"]][] = [
  ["cpu_pct", "pct"],
  ["memory_used_bytes", "bytes"],
  ["disk_free_bytes", "bytes"],
  ["disk_read_bytes_per_s", "bytes_per_s"],
  ["disk_written_bytes_per_s", "bytes_per_s"],
];
const OF_GPU: [string, Label, SystemRow["unit"]][] = [
  ["use_pct", "gpuUse", "pct"],
  ["memory_used_bytes", "gpuMemory", "bytes"],
  ["power_w", "gpuPower", "W"],
  ["temperature_c", "gpuTemperature", "°C"],
  ["clock_mhz", "gpuClock", "MHz"],
  ["throttled_pct/power_cap", "throttled_power_cap", "pct"],
  ["throttled_pct/heat", "throttled_heat", "pct"],
  ["throttled_pct/board", "throttled_board", "pct"],
  ["throttled_pct/power_supply", "throttled_power_supply", "pct"],
];

/** The series of a node in the order they are shown: the node's, its interfaces', its GPUs'. Interfaces
 * that carried nothing, and reasons that never slowed a GPU, are left out. */
export function rowsOf(data: SystemMetrics): SystemRow[] {
  const rows: SystemRow[] = [];
  const add = (
    name: string,
    label: Label,
    unit: SystemRow["unit"],
    more: { of?: string; index?: number } = {},
  ): void => {
    const values = data.series[name];
    if (!values || (name.includes("/throttled_pct/") && values.every((v) => !v))) return;
    const told = values.filter((v) => v !== null);
    const most = told.length > 0 ? Math.max(...told) : null;
    const limit = name.replace("_used_", "_total_").replace("/clock_", "/max_clock_");
    const top = unit === "pct" ? 100 : ((limit === name ? null : data.series[limit]?.at(-1)) ?? most ?? 0);
    rows.push({
      name,
      label,
      unit,
      of: more.of ?? "",
      index: more.index ?? null,
      values,
      last: values.at(-1) ?? null,
      most,
      top,
    });
  };
  for (const [name, unit] of OF_NODE) add(name, name, unit);
  const parts = Object.keys(data.series).map((name) => name.split("/"));
  for (const of of [...new Set(parts.filter((p) => p[0] === "net").map((p) => p.slice(1, -1).join("/")))].toSorted()) {
    const names = [`net/${of}/sent_bytes_per_s`, `net/${of}/received_bytes_per_s`] as const;
    if (names.every((name) => (data.series[name] ?? []).every((v) => !v))) continue;
    add(names[0], "sent", "bytes_per_s", { of });
    add(names[1], "received", "bytes_per_s", { of });
  }
  const indexes = [...new Set(parts.filter((p) => p[0] === "gpu").map((p) => Number(p[1])))].toSorted((a, b) => a - b);
  for (const index of indexes)
    for (const [name, label, unit] of OF_GPU) add(`gpu/${index}/${name}`, label, unit, { index });
  return rows;
}

const HOUR_MS = 3_600_000;
/** Three samples: what lies further apart is not joined. */
const GAP_MS = 45_000;

/** The line of an SVG path through `values` at `times` (ms), over the hour that ends `now`. A gap is where
 * nothing was told, also while nobody listened. */
export function pathOf(
  values: (number | null)[],
  times: number[],
  { now, top, width, height }: { now: number; top: number; width: number; height: number },
): string {
  const scale = top > 0 ? top : 1;
  let path = "";
  let before: number | null = null;
  values.forEach((value, i) => {
    const at = times[i];
    if (value === null || at === undefined || at < now - HOUR_MS) {
      before = null;
      return;
    }
    const x = width * (1 - Math.max(0, now - at) / HOUR_MS);
    const y = height - 1 - (value / scale) * (height - 2);
    path += `${before !== null && at - before <= GAP_MS ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    before = at;
  });
  return path;
}
