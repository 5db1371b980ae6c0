import type { Preflight } from "../../../api/queries";

/** Of the all-reduces of a preflight. */
export const ALLREDUCE_BYTES = 2 ** 20;

export const linkBetween = (preflight: Preflight, from: string, to: string): Preflight["links"][number] | undefined =>
  preflight.links.find((link) => link.from_node === from && link.to_node === to);

/** Bytes reduced per second of one all-reduce that took so long. */
export const bytesPerS = (allreduceMs: number): number => ALLREDUCE_BYTES / (allreduceMs / 1000);

/** Each thing that failed in a line, with the nodes it is about; of a pair both directions. */
export function failures(preflight: Preflight): string[] {
  const links = preflight.links
    .filter((link) => link.message)
    .map((link) => `${link.from_node} → ${link.to_node}: ${link.message}`);
  const own = preflight.nodes.flatMap((node) => node.problems.map((problem) => `${node.node_name}: ${problem}`));
  return preflight.state === "failed" ? [...links, ...own] : [];
}
