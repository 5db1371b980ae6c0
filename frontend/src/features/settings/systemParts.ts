/** The parts of an installation with what is known of each. Pure. */
import type { Health, Node } from "../../api/queries";

type Name = "database" | "controller" | "worker" | "redis";
export type PartState = Health["database"] | Health["controller"] | Health["worker"] | Health["redis"];

export interface Part {
  name: Name;
  state: PartState;
  tone: "ok" | "warn" | "bad" | "idle";
  /** The loop in which a failing controller broke off; null: in none, or it does not fail. */
  loop: string | null;
}

/** Nothing is answered or scheduled without the first two; the others make it slower or later. */
const VITAL: ReadonlySet<Name> = new Set(["database", "controller"]);

function toneOf(name: Name, state: PartState): Part["tone"] {
  if (state === "ok") return "ok";
  if (state === "not_configured" || state === "unknown") return "idle";
  return VITAL.has(name) ? "bad" : "warn";
}

export function partsOf(health: Health): Part[] {
  return (["database", "controller", "worker", "redis"] as const).map((name) => ({
    name,
    state: health[name],
    tone: toneOf(name, health[name]),
    loop: name === "controller" ? health.failing_loop : null,
  }));
}

/** How many agents run each version, the newest version first; removed nodes have none. */
export function agentVersions(
  nodes: readonly Pick<Node, "agent_version" | "state">[],
): { version: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { agent_version: version, state } of nodes)
    if (state !== "REMOVED") counts.set(version, (counts.get(version) ?? 0) + 1);
  return [...counts]
    .map(([version, count]) => ({ version, count }))
    .toSorted((a, b) => b.version.localeCompare(a.version, "en", { numeric: true }));
}
