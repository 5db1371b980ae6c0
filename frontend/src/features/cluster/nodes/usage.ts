import type { Node } from "../../../api/queries";

export interface Usage {
  /** 0..1 */
  cpu: number;
  /** 0..1 */
  memory: number;
  memoryUsed: number;
  memoryTotal: number;
  diskFree: number;
  /** Bytes per second, both ways. */
  net: number;
  sent: number;
  received: number;
  load: number;
  /** Container images that the agent has pulled, and its limit for them; null without an engine. */
  images: { bytes: number; limit: number } | null;
}

const number = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);

/** What the node's last heartbeat said; null before one, or while it is not heard. */
export function usageOf(node: Node): Usage | null {
  const raw = node.usage;
  if (!raw || node.state === "LOST" || node.state === "REMOVED") return null;
  const total = number(raw["memory_total_bytes"]);
  const used = number(raw["memory_used_bytes"]);
  const sent = number(raw["net_sent_bytes_per_s"]);
  const received = number(raw["net_received_bytes_per_s"]);
  return {
    cpu: number(raw["cpu_pct"]) / 100,
    memory: total > 0 ? used / total : 0,
    memoryUsed: used,
    memoryTotal: total,
    diskFree: number(raw["disk_free_bytes"]),
    net: sent + received,
    sent,
    received,
    load: number(raw["load_1m"]),
    images:
      typeof raw["images_bytes"] === "number"
        ? { bytes: raw["images_bytes"], limit: number(raw["images_limit_bytes"]) }
        : null,
  };
}
