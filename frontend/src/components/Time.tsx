import { useTranslation } from "react-i18next";

import { duration, elapsed, MISSING } from "../lib/format";
import { usePref } from "../lib/prefs";
import { elapsedS, parseAt, stamp, type TimeZone } from "../lib/time";
import { useNow } from "./useNow";

export function useTimeZone(): TimeZone {
  return usePref("timezone")[0] === "utc" ? "utc" : "local";
}

/** How long ago, with the instant in the tooltip. */
export function Ago({ at, short = false }: { at: string | null | undefined; short?: boolean }) {
  const { t } = useTranslation();
  const now = useNow();
  const zone = useTimeZone();
  const value = parseAt(at);
  if (value === null) return <span>{MISSING}</span>;
  const seconds = Math.max(0, (now - value) / 1000);
  const text = seconds < 1.5 ? t("time.now") : short ? duration(seconds) : t("time.ago", { age: duration(seconds) });
  return (
    <time className="num" dateTime={at ?? ""} title={stamp(value, zone)}>
      {text}
    </time>
  );
}

/** How long until then, with the instant in the tooltip. */
export function Until({ at }: { at: string | null | undefined }) {
  const { t } = useTranslation();
  const now = useNow();
  const zone = useTimeZone();
  const value = parseAt(at);
  if (value === null) return <span>{MISSING}</span>;
  const seconds = (value - now) / 1000;
  return (
    <time className="num" dateTime={at ?? ""} title={stamp(value, zone)}>
      {seconds < 1.5 ? t("time.now") : t("time.in", { age: duration(seconds) })}
    </time>
  );
}

/** From start to end, or to now while it lasts. */
export function Elapsed({ start, end }: { start: string | null | undefined; end?: string | null }) {
  const now = useNow();
  return <span className="num">{elapsed(elapsedS(start, end, now))}</span>;
}

export function Stamp({ at, part = "full" }: { at: string | number | null | undefined; part?: "full" | "time" }) {
  const zone = useTimeZone();
  const value = typeof at === "number" ? at : parseAt(at);
  if (value === null) return <span>{MISSING}</span>;
  return (
    <time className="num" dateTime={new Date(value).toISOString()} title={stamp(value, zone)}>
      {stamp(value, zone, part)}
    </time>
  );
}
