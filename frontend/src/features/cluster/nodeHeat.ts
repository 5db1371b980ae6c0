/** Many nodes as a heat map: one group per pool, one cell per node. Pure. */
import type { Node } from "../../api/queries";

export interface HeatCell {
  id: string;
  name: string;
  /** Share of its slots in use, 0..1; null: the node takes no trials. */
  share: number | null;
  used: number;
  slots: number;
  /** "bad": no heartbeat; "warn": unhealthy; null: nothing to say. */
  trouble: "bad" | "warn" | null;
  state: string;
}

export interface HeatGroup {
  pool: string;
  cells: HeatCell[];
  online: number;
  used: number;
  slots: number;
}

type Given = Pick<Node, "id" | "name" | "pool" | "state" | "health" | "unavailable" | "num_slots" | "num_slots_used">;

/** Pools by name; the nodes of each in the order given. */
export function heatGroups(nodes: readonly Given[]): HeatGroup[] {
  const groups = new Map<string, HeatGroup>();
  for (const node of nodes) {
    const group = groups.get(node.pool) ?? { pool: node.pool, cells: [], online: 0, used: 0, slots: 0 };
    const isOnline = node.state === "ONLINE";
    if (isOnline) {
      group.online += 1;
      group.used += node.num_slots_used;
      group.slots += node.num_slots;
    }
    const isOpen = isOnline && (node.unavailable === null || node.num_slots_used > 0);
    group.cells.push({
      id: node.id,
      name: node.name,
      share: isOpen && node.num_slots > 0 ? node.num_slots_used / node.num_slots : null,
      used: node.num_slots_used,
      slots: node.num_slots,
      trouble: isOnline ? (node.health === "ok" ? null : "warn") : "bad",
      state: node.state,
    });
    groups.set(node.pool, group);
  }
  return [...groups.values()].toSorted((a, b) => a.pool.localeCompare(b.pool));
}
