/** What mends a problem, as the next page to go to. Pure. */
import type { Part } from "../../i18n/server";

export interface Remedy {
  /** Of its text. */
  name:
    | "addNode"
    | "changeCopy"
    | "showFailure"
    | "showList"
    | "showMetrics"
    | "showNode"
    | "showNodes"
    | "showQueue"
    | "showRanks"
    | "stopAndContinue";
  to: string;
  search?: Record<string, string | number>;
  /** Only administrators can do it. */
  isForAdmins?: boolean;
}

/** Codes of reasons that go away with another node. */
const NODE_HELPS = new Set([
  "pending.no_such_slots",
  "pending.none_allowed",
  "pending.no_container",
  "pending.no_isolation",
  "pending.too_few",
  "pending.no_domain",
  "pending.ends_before",
  "pending.beside_spares",
]);

/** What lets a trial start that cannot start on the current nodes, for the reason that the parts name. */
export function remediesOf(waits: { experimentId: number; parts: readonly Part[] | undefined }): Remedy[] {
  const copy: Remedy = { name: "changeCopy", to: "/submit", search: { from: waits.experimentId } };
  return (waits.parts ?? []).some(({ code }) => NODE_HELPS.has(code))
    ? [copy, { name: "addNode", to: "/nodes/add", isForAdmins: true }]
    : [copy];
}
