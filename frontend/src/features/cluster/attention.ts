/** What needs a person, from what the overview already knows. Pure. */
import type { Cluster, Experiment, Node } from "../../api/queries";
import type { Part } from "../../i18n/server";
import { parseAt } from "../../lib/time";

export interface Attention {
  key: string;
  kind: "failed" | "node" | "health" | "version" | "wait" | "diverged" | "impossible" | "moreImpossible";
  tone: "bad" | "warn";
  to: string;
  name: string;
  detail: string;
  /** Of the detail, for other languages. */
  parts?: readonly Part[];
  at: string | null;
}

const DAY_MS = 86_400_000;
const LONG_WAIT_MS = 30 * 60_000;

export function attention(
  cluster: Cluster | undefined,
  nodes: readonly Node[],
  experiments: readonly Experiment[],
  now: number,
): Attention[] {
  const out: Attention[] = [];
  for (const node of nodes) {
    const to = `/nodes/${encodeURIComponent(node.id)}`;
    if (node.state === "LOST" || node.state === "SUSPECT") {
      out.push({
        key: `n${node.id}`,
        kind: "node",
        tone: node.state === "LOST" ? "bad" : "warn",
        to,
        name: node.name,
        detail: "",
        at: node.last_seen_at,
      });
    } else if (node.health !== "ok" && node.state !== "REMOVED") {
      out.push({
        key: `h${node.id}`,
        kind: "health",
        tone: "warn",
        to,
        name: node.name,
        detail: node.health_reason || node.health,
        at: null,
      });
    }
  }
  // In whichever list it was found.
  for (const experiment of new Map(experiments.map((one) => [one.id, one])).values()) {
    const ended = parseAt(experiment.ended_at);
    const to = experiment.only_trial_id ? `/trials/${experiment.only_trial_id}` : `/experiments/${experiment.id}`;
    if (experiment.state === "FAILED" && ended !== null && now - ended < DAY_MS) {
      out.push({
        key: `e${experiment.id}`,
        kind: "failed",
        tone: "bad",
        to,
        name: experiment.name,
        detail: experiment.reason,
        at: experiment.ended_at,
      });
    } else if (experiment.state === "RUNNING" && experiment.non_finite_metric !== null) {
      out.push({
        key: `d${experiment.id}`,
        kind: "diverged",
        tone: "bad",
        to,
        name: experiment.name,
        detail: experiment.non_finite_metric,
        at: null,
      });
    }
  }
  for (const trial of cluster?.impossible ?? []) {
    out.push({
      key: `i${trial.trial_id}`,
      kind: "impossible",
      tone: "warn",
      to: `/trials/${trial.trial_id}`,
      name: trial.experiment_name,
      detail: trial.pending_reason,
      parts: trial.pending_parts,
      at: trial.waiting_since,
    });
  }
  const more = (cluster?.num_impossible ?? 0) - (cluster?.impossible.length ?? 0);
  if (more > 0)
    out.push({
      key: "impossible",
      kind: "moreImpossible",
      tone: "warn",
      to: "/queue",
      name: String(more),
      detail: "",
      at: null,
    });
  const oldest = parseAt(cluster?.oldest_queued_at);
  if (oldest !== null && now - oldest > LONG_WAIT_MS) {
    out.push({
      key: "queue",
      kind: "wait",
      tone: "warn",
      to: "/queue",
      name: "",
      detail: "",
      at: cluster?.oldest_queued_at ?? null,
    });
  }
  return out.toSorted((a, b) => (a.tone === b.tone ? 0 : a.tone === "bad" ? -1 : 1));
}
