/** What needs a person, from what the overview already knows. Pure. */
import type { Cluster, Node } from "../../api/queries";
import { type Remedy, remediesOf } from "../../common/experiments/remedies";
import type { Part } from "../../i18n/server";
import { parseAt } from "../../lib/time";

export interface Attention {
  /** Names this occurrence, so that the next one is listed although this one was dismissed. */
  key: string;
  kind:
    | "failed"
    | "failures"
    | "moreFailed"
    | "node"
    | "health"
    | "quarantined"
    | "nodes"
    | "healths"
    | "quarantines"
    | "wait"
    | "diverged"
    | "impossible"
    | "moreImpossible"
    | "stuck"
    | "moreStuck"
    | "still"
    | "moreWarnings";
  tone: "bad" | "warn";
  to: string;
  name: string;
  /** Of a trial, its number. */
  no?: number;
  /** Of a trial that cannot start. */
  experimentId?: number;
  /** How many it is about. */
  count?: number;
  /** Of its page. */
  tab?: string;
  /** Of a list. */
  search?: Record<string, string>;
  detail: string;
  /** Of the detail, for other languages. */
  parts?: readonly Part[];
  at: string | null;
}

/** A key of the parts, in the characters that the server takes. */
const keyOf = (...parts: (string | number | null)[]): string =>
  parts
    .map((part) => String(part ?? 0))
    .join(":")
    .slice(0, 120);

/** A short number that tells texts apart (FNV-1a). */
function textKey(text: string): number {
  let hash = 0x811c9dc5;
  for (const char of text) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
  return hash >>> 0;
}

/** What is wrong with the cluster, then what can never start, what goes wrong now, and what has failed; each by time. */
const ORDER: Record<Attention["kind"], number> = {
  node: 0,
  health: 0,
  quarantined: 0,
  nodes: 0,
  healths: 0,
  quarantines: 0,
  impossible: 1,
  moreImpossible: 1,
  stuck: 2,
  moreStuck: 2,
  diverged: 2,
  still: 2,
  moreWarnings: 2,
  wait: 2,
  failed: 3,
  failures: 3,
  moreFailed: 3,
};
const LONG_WAIT_MS = 30 * 60_000;

/** What mends a problem; every item has at least one. */
export function actionsOf(item: Attention): Remedy[] {
  const here = { to: item.to, search: item.search };
  switch (item.kind) {
    case "node":
    case "quarantined":
    case "health":
      return [{ name: "showNode", ...here }];
    case "nodes":
    case "healths":
    case "quarantines":
      return [{ name: "showNodes", ...here }];
    case "impossible":
      return remediesOf({ experimentId: item.experimentId ?? 0, parts: item.parts });
    case "stuck":
      return [{ name: "showRanks", to: item.to, search: { tab: "ranks" } }];
    case "diverged":
      return [{ name: "showMetrics", ...here }];
    case "still":
      return [{ name: "stopAndContinue", ...here }];
    case "failed":
      return [{ name: "showFailure", ...here }];
    case "wait":
    case "moreImpossible":
      return [{ name: "showQueue", ...here }];
    case "failures":
    case "moreFailed":
    case "moreStuck":
    case "moreWarnings":
      return [{ name: "showList", ...here }];
  }
}

const SEVERAL = { node: "nodes", health: "healths", quarantined: "quarantines" } as const;

/** What is wrong with nodes: one entry for all that have the same. */
function nodeTroubles(nodes: readonly Node[]): Attention[] {
  const alike = new Map<string, ReturnType<typeof troubleOf>>();
  for (const one of nodes.flatMap(troubleOf)) {
    const key = [one.kind, one.tone, one.detail].join("\n");
    alike.set(key, [...(alike.get(key) ?? []), one]);
  }
  return [...alike.values()].flatMap((troubles): Attention[] => {
    const [first, ...others] = troubles;
    if (first === undefined || others.length === 0) return troubles;
    const several = {
      ...first,
      key: keyOf(SEVERAL[first.kind], textKey(troubles.map(({ key }) => key).join("\n"))),
      kind: SEVERAL[first.kind],
      to: "/nodes",
      count: troubles.length,
    };
    return [several];
  });
}

function troubleOf(node: Node): (Attention & { kind: keyof typeof SEVERAL })[] {
  const found = { name: node.name, to: `/nodes/${encodeURIComponent(node.id)}` };
  if (node.state === "LOST" || node.state === "SUSPECT")
    return [
      {
        ...found,
        key: keyOf("node", node.id, parseAt(node.last_seen_at)),
        kind: "node",
        tone: node.state === "LOST" ? "bad" : "warn",
        detail: "",
        at: node.last_seen_at,
      },
    ];
  if (node.health === "ok" || node.state === "REMOVED") return [];
  return [
    {
      ...found,
      key: keyOf("health", node.id, textKey(node.health + node.health_reason)),
      kind: node.health === "quarantined" ? "quarantined" : "health",
      tone: "warn",
      detail: node.quarantine_reason || node.health_reason,
      at: null,
    },
  ];
}

export function attention(cluster: Cluster | undefined, nodes: readonly Node[], now: number): Attention[] {
  const out: Attention[] = nodeTroubles(nodes);
  for (const run of cluster?.warnings ?? []) {
    const to = run.only_trial_id ? `/trials/${run.only_trial_id}` : `/experiments/${run.experiment_id}`;
    if (run.non_finite_metric !== null) {
      out.push({
        key: keyOf("diverged", run.experiment_id, textKey(run.non_finite_metric)),
        kind: "diverged",
        tone: "bad",
        to,
        name: run.experiment_name,
        detail: run.non_finite_metric,
        at: null,
      });
    } else if (run.standstill !== null) {
      out.push({
        key: keyOf("still", run.experiment_id),
        kind: "still",
        tone: "warn",
        to,
        name: run.experiment_name,
        detail: run.standstill.text,
        parts: run.standstill.parts,
        at: null,
      });
    }
  }
  const moreWarnings = (cluster?.num_warnings ?? 0) - (cluster?.warnings.length ?? 0);
  if (moreWarnings > 0)
    out.push({
      key: keyOf("warnings", "more", moreWarnings),
      kind: "moreWarnings",
      tone: "warn",
      to: "/experiments",
      search: { state: "RUNNING" },
      name: "",
      count: moreWarnings,
      detail: "",
      at: null,
    });
  for (const { reason, count, experiment_id: id, experiment_name: name, ended_at: at } of cluster?.failures ?? []) {
    const isOne = count === 1;
    out.push({
      key: isOne ? keyOf("failed", id, parseAt(at)) : keyOf("failed", textKey(reason), count, parseAt(at)),
      kind: isOne ? "failed" : "failures",
      tone: "bad",
      to: isOne ? `/experiments/${id}` : "/experiments",
      search: isOne ? undefined : { state: "FAILED" },
      name,
      count,
      detail: reason,
      at,
    });
  }
  const moreFailed =
    (cluster?.num_failures ?? 0) - (cluster?.failures ?? []).reduce((sum, { count }) => sum + count, 0);
  if (moreFailed > 0)
    out.push({
      key: keyOf("failed", "more", moreFailed),
      kind: "moreFailed",
      tone: "bad",
      to: "/experiments",
      search: { state: "FAILED" },
      name: "",
      count: moreFailed,
      detail: "",
      at: null,
    });
  for (const trial of cluster?.impossible ?? []) {
    out.push({
      key: keyOf("impossible", trial.trial_id, parseAt(trial.waiting_since)),
      kind: "impossible",
      tone: "warn",
      to: `/trials/${trial.trial_id}`,
      name: trial.experiment_name,
      experimentId: trial.experiment_id,
      detail: trial.pending_reason,
      parts: trial.pending_parts,
      at: trial.waiting_since,
    });
  }
  const more = (cluster?.num_impossible ?? 0) - (cluster?.impossible.length ?? 0);
  if (more > 0)
    out.push({
      key: keyOf("impossible", "more", more),
      kind: "moreImpossible",
      tone: "warn",
      to: "/queue",
      name: String(more),
      detail: "",
      at: null,
    });
  for (const trial of cluster?.stuck ?? []) {
    out.push({
      key: keyOf("stuck", trial.trial_id, parseAt(trial.stuck_at)),
      kind: "stuck",
      tone: "warn",
      to: `/trials/${trial.trial_id}`,
      name: trial.experiment_name,
      no: trial.trial_no,
      tab: "ranks",
      detail: "",
      at: trial.moved_at,
    });
  }
  const moreStuck = (cluster?.num_stuck ?? 0) - (cluster?.stuck.length ?? 0);
  if (moreStuck > 0)
    out.push({
      key: keyOf("stuck", "more", moreStuck),
      kind: "moreStuck",
      tone: "warn",
      to: "/experiments",
      name: String(moreStuck),
      detail: "",
      at: null,
    });
  const oldest = parseAt(cluster?.oldest_queued_at);
  if (oldest !== null && now - oldest > LONG_WAIT_MS) {
    out.push({
      key: keyOf("queue", oldest),
      kind: "wait",
      tone: "warn",
      to: "/queue",
      name: "",
      detail: "",
      at: cluster?.oldest_queued_at ?? null,
    });
  }
  const late = (item: Attention): number => parseAt(item.at) ?? Number.NEGATIVE_INFINITY;
  return out.toSorted((a, b) => ORDER[a.kind] - ORDER[b.kind] || late(b) - late(a) || 0);
}
