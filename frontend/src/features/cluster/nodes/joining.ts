/** How a machine becomes a node: what to run for it, and which nodes have come since. Pure. */
import type { Node } from "../../../api/queries";

/** `ssh` and `command` add one machine; the others give a pool a provider, which adds nodes as trials need them. */
export const WAYS = ["ssh", "command", "slurm", "kubernetes", "ray"] as const;
export type Way = (typeof WAYS)[number];
export type Provider = Exclude<Way, "ssh" | "command">;

export const wayOf = (text: string | undefined): Way => WAYS.find((way) => way === text) ?? "ssh";
export const isProvider = (way: Way): way is Provider => way !== "ssh" && way !== "command";

export const INSTALL = [
  "python3 -m venv ~/muster",
  "HATCH_BUILD_NO_HOOKS=true ~/muster/bin/pip install 'muster-train[agent] @ file:///path/to/a/clone'",
  "export PATH=~/muster/bin:$PATH",
].join("\n");

/** What each provider cannot do without; the guides list the rest. */
const OPTIONS: Record<Provider, string> = {
  slurm: "--partition PARTITION --nodes 0:8 --slots 1 --walltime 12h --idle 10m",
  kubernetes:
    "--namespace NAMESPACE --image IMAGE --nodes 0:8 --slots 1 --cpus 4 --memory 16Gi --walltime 12h --idle 10m",
  ray: "--address http://RAY-HEAD:8265 --nodes 0:8 --slots-per-node 1 --cpus 4 --walltime 12h --idle 10m",
};

/** A word of a command line, quoted where the shell would read it otherwise. */
const quoted = (word: string): string => (/^[\w.@:/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

export const sshCommands = (machine: string, pool: string, server: string): string =>
  [`muster login ${quoted(server)}`, `muster node add ${quoted(machine)} --pool ${quoted(pool)}`].join("\n");

export const providerCommand = (provider: Provider, pool: string, server: string): string =>
  `muster pool create ${quoted(pool)} --provider ${provider} ${OPTIONS[provider]} --server-url ${quoted(server)}`;

export const isForThisMachine = (hostname: string): boolean =>
  hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]" || hostname.startsWith("127.");

/** The nodes that were not there before. */
export const arrivals = (before: ReadonlySet<string>, nodes: readonly Node[]): Node[] =>
  nodes.filter((node) => !before.has(node.id));

/** The search of a link to the submit page: one worker on this node, or in this pool if it has no node yet. */
export function firstJob(node: Pick<Node, "name" | "pool" | "slots"> | { pool: string }): {
  template: string;
  set: string;
} {
  const resources =
    "name" in node
      ? { slots: 1, slot_type: node.slots[0]?.slot_type ?? "cpu", pool: node.pool, allow_nodes: [node.name] }
      : { slots: 1, pool: node.pool };
  return { template: "one-worker", set: `resources=${JSON.stringify(resources)}` };
}
