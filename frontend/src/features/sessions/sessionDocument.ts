/** The document of a session, as `muster session start` writes it. Pure. */
import type { ExperimentDetail, InteractiveSession } from "../../api/queries";

export type SessionKind = InteractiveSession["kind"];
export const SESSION_KINDS = ["shell", "ssh", "jupyter", "code"] as const satisfies readonly SessionKind[];
/** Names that are the same in every language. */
export const KIND_NAMES: Partial<Record<SessionKind, string>> = { ssh: "SSH", jupyter: "Jupyter", code: "VS Code" };

export interface SessionWish {
  kind: SessionKind;
  /** Empty: named after its kind. */
  name: string;
  slots: number;
  idle: string;
  /** Null: that of the experiment it is opened from, else the default. */
  project: string | null;
  pool?: string;
  slotType?: string;
}

type Source = Pick<ExperimentDetail, "config" | "blob_sha256">;

/** What a session opens of an experiment beside its code. */
const KEPT = ["project", "environment", "data", "models"];

/** source: the experiment whose code, environment and data it opens. */
export function sessionDocument(wish: SessionWish, source?: Source): Record<string, unknown> {
  const config = source?.config ?? {};
  const code = Object.entries((config["code"] ?? {}) as Record<string, unknown>);
  const isInstalled = code.some(([key, value]) => key === "installed" && Boolean(value));
  const isKept = source !== undefined && (source.blob_sha256 !== null || isInstalled);
  return {
    name: wish.name.trim() || `session-${wish.kind}`,
    session: { kind: wish.kind, idle: wish.idle.trim() },
    ...Object.fromEntries(KEPT.flatMap((key) => (isFilled(config[key]) ? [[key, config[key]]] : []))),
    ...(isKept
      ? {
          code: {
            ...Object.fromEntries(code.filter(([key, value]) => key !== "include" && value !== null)),
            ...(isInstalled ? {} : { path: "." }),
          },
        }
      : {}),
    ...(wish.project === null ? {} : { project: wish.project }),
    resources: { slots: wish.slots, nodes: 1, preemptible: false, pool: wish.pool, slot_type: wish.slotType },
  };
}

function isFilled(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}
