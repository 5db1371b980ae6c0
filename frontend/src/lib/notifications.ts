import type { InboxEntry, Kind } from "../api/queries";

/** Events that a rule can name, in the order that pages list them. */
export const KINDS: readonly Kind[] = [
  "trial.failed",
  "trial.stuck",
  "experiment.ended",
  "experiment.new_best",
  "search.finished",
  "checkpoint.damaged",
  "budget.reached",
  "node.lost",
];
/** Those that concern the cluster: only rules of administrators name them. */
export const ADMIN_KINDS: readonly Kind[] = ["node.lost"];

type Dashed<T extends string> = T extends `${infer Head}.${infer Tail}` ? `${Head}_${Tail}` : T;

/** The part of a text's key that stands for a kind: a dot in a key would begin another level. */
export const kindKey = <T extends InboxEntry["kind"]>(kind: T): Dashed<T> => kind.replace(".", "_") as Dashed<T>;
