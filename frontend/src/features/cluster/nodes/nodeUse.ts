/** What a node's slots are used for. Pure. */
import type { Node } from "../../../api/queries";

export interface Held {
  trialId: number;
  experimentId: number;
  experimentName: string;
  /** Slot numbers on this node, ascending. */
  slots: number[];
  /** Known ranks on this node, ascending. */
  ranks: number[];
}

/** The trials that hold slots of the node, in the order of their first slot. */
export function heldBy(node: Pick<Node, "slots">): Held[] {
  const held = new Map<number, Held>();
  for (const slot of node.slots.toSorted((a, b) => a.index - b.index)) {
    if (slot.trial_id === null || slot.experiment_id === null) continue;
    const entry = held.get(slot.trial_id) ?? {
      trialId: slot.trial_id,
      experimentId: slot.experiment_id,
      experimentName: slot.experiment_name ?? `#${slot.experiment_id}`,
      slots: [],
      ranks: [],
    };
    entry.slots.push(slot.index);
    if (slot.rank !== null) entry.ranks.push(slot.rank);
    held.set(slot.trial_id, entry);
  }
  for (const entry of held.values()) entry.ranks.sort((a, b) => a - b);
  return [...held.values()];
}

/** "4 × NVIDIA H100 (80 GiB)" material: equal devices counted together, in the order of first slots. */
export function devicesOf(
  node: Pick<Node, "slots">,
): { name: string; type: string; memoryBytes: number; count: number }[] {
  const devices = new Map<string, { name: string; type: string; memoryBytes: number; count: number }>();
  for (const slot of node.slots) {
    const key = JSON.stringify([slot.name, slot.slot_type, slot.memory_bytes]);
    const device = devices.get(key) ?? {
      name: slot.name || slot.slot_type,
      type: slot.slot_type,
      memoryBytes: slot.memory_bytes,
      count: 0,
    };
    device.count += 1;
    devices.set(key, device);
  }
  return [...devices.values()];
}

/** What runs there, those versions that are known: [["agent", "0.1.0"], …]. */
export function versionsOf(
  node: Pick<Node, "agent_version" | "python_version" | "torch_version" | "cuda_version" | "driver_version">,
): [string, string][] {
  const all: [string, string][] = [
    ["agent", node.agent_version],
    ["Python", node.python_version],
    ["torch", node.torch_version],
    ["CUDA", node.cuda_version],
    ["driver", node.driver_version],
  ];
  return all.filter(([, version]) => version !== "");
}
