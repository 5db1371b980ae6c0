import type { TFunction } from "i18next";

import type { Diagnosis } from "../../api/queries";
import * as format from "../../lib/format";

type Estimate = Diagnosis["shares"][string];

/** A share with its interval, for texts. */
export function interval(share: Estimate): { share: string; low: string; high: string; n: number } {
  return { share: format.pct(share.value), low: format.pct(share.low), high: format.pct(share.high), n: share.num };
}

const signed = (value: number): string => (value >= 0 ? "+" : "") + format.pct(value);

/** A gain with its interval, for texts. */
export function gainOf(gain: Estimate): { value: string; low: string; high: string; n: number } {
  return { value: signed(gain.value), low: signed(gain.low), high: signed(gain.high), n: gain.num };
}

export { signed };

const OVER: ReadonlySet<string> = new Set(["COMPLETED", "FAILED", "CANCELED"]);

/** The probes that have ended, however they did. */
export const probesOver = (found: Diagnosis): Diagnosis["probes"] =>
  found.probes.filter((probe) => probe.state !== null && OVER.has(probe.state));

const KINDS = ["as_is", "no_sync", "synthetic", "alone"] as const;

/** "bucket:4" and the like as people say it. */
export function probeName(t: TFunction, probe: string): string {
  const kind = KINDS.find((name) => name === probe);
  return kind ? t(`diagnosis.probe.${kind}`) : t("diagnosis.probe.bucket", { mb: probe.split(":")[1] ?? "…" });
}

/** What a diagnosis has found, in a line. A step is bound by what takes more than half of it. */
export function verdictTitle(t: TFunction, found: Diagnosis): string {
  const { verdict } = found;
  if (verdict === null) return "";
  const rank = found.culprit_rank ?? "";
  const isMost = (found.shares[verdict]?.value ?? 0) > 0.5;
  return isMost && verdict !== "compute" && verdict !== "inconclusive"
    ? t(`diagnosis.most.${verdict}`, { rank })
    : t(`diagnosis.verdict.${verdict}`, { rank });
}
