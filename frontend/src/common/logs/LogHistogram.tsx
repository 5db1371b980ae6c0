import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, type MouseEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { type Schemas } from "../../api/client";
import type { LogSearch } from "../../app/search";
import { useTimeZone } from "../../components/Time";
import * as format from "../../lib/format";
import { stamp } from "../../lib/time";
import { histogramKey, LEVELS, levelsOf, type LevelName, type LogSource } from "./logQuery";
import css from "./logs.module.css";

type Histogram = Schemas["LogHistogram"];

const POLL_MS = 5_000;
/** From the bottom of a bar to its top. */
const STACK = [null, ...LEVELS] as const;

/** How many lines there are when, by level; a click on a bar shows its time alone. */
export function LogHistogram({
  source,
  search,
  set,
}: {
  source: LogSource;
  search: LogSearch;
  set: (change: Partial<LogSearch>) => void;
}) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const data = useQuery({
    queryKey: ["log-histogram", histogramKey(source, search)],
    queryFn: ({ signal }) => source.histogram(search, signal),
    placeholderData: keepPreviousData,
    refetchInterval: source.isOver ? false : POLL_MS,
  }).data;
  const [chosen, setChosen] = useState<number | null>(null);
  const wanted = levelsOf(search);
  const bars = data ? barsOf(data, wanted) : [];
  const most = Math.max(1, ...bars.map((bar) => bar.total));
  const at = (ms: number): string => stamp(ms, zone);
  const zoom = (bar: Bar | undefined): void => {
    if (bar && bar.total > 0 && bars.length > 1)
      set({ since: new Date(bar.from).toISOString(), until: new Date(bar.to).toISOString(), line: undefined });
  };
  const words = (bar: Bar, lines: string): string => t("logs.volumeOf", { from: at(bar.from), to: at(bar.to), lines });
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = ({ ArrowLeft: -1, ArrowRight: 1 } as const)[event.key as "ArrowLeft"];
    if (by === undefined) return;
    event.preventDefault();
    setChosen(Math.max(0, Math.min(bars.length - 1, (chosen ?? (by > 0 ? -1 : bars.length)) + by)));
  };
  const onClick = (event: MouseEvent<HTMLButtonElement>): void => {
    if (event.detail === 0) return zoom(chosen === null ? undefined : bars[chosen]); // by the keyboard
    const box = event.currentTarget.getBoundingClientRect();
    return zoom(bars[Math.floor(((event.clientX - box.left) / box.width) * bars.length)]);
  };
  const current = chosen === null ? undefined : bars[chosen];
  // Its room is kept, so that the log below does not jump when the bars come. One control: bars of
  // a few pixels each are no targets of their own.
  return (
    <div className={css["histogram"]} data-testid="log-histogram">
      <button
        type="button"
        className={css["bars"]}
        data-keys="bars"
        aria-label={current ? words(current, format.count(current.total)) : t("logs.volumeHint")}
        aria-live="polite"
        onClick={onClick}
        onKeyDown={onKeyDown}
        onBlur={() => setChosen(null)}
        disabled={bars.length === 0}
      >
        {bars.map((bar, i) => (
          <span
            key={bar.from}
            className={css["slot"]}
            data-chosen={i === chosen || undefined}
            data-num={bar.total}
            title={words(
              bar,
              parts(bar)
                .map(([level, n]) => `${t(level === null ? "logs.noLevel" : `logs.level.${level}`)} ${format.count(n)}`)
                .join(", "),
            )}
          >
            <span
              className={css["bar"]}
              style={{ height: `${Math.max(bar.total > 0 ? 4 : 0, (100 * bar.total) / most)}%` }}
            >
              {parts(bar).map(([level, n]) => (
                <i key={level ?? ""} data-level={level ?? undefined} style={{ flexGrow: n }} />
              ))}
            </span>
          </span>
        ))}
      </button>
      {bars.length > 0 ? (
        <div className={css["barAxis"]}>
          <span>{at(bars[0]?.from ?? 0)}</span>
          <span>
            {t("logs.volumeMost", {
              n: format.count(most),
              width: format.ms((bars[0]?.to ?? 0) - (bars[0]?.from ?? 0)),
            })}
          </span>
          <span>{at(bars.at(-1)?.to ?? 0)}</span>
        </div>
      ) : null}
    </div>
  );
}

interface Bar {
  from: number;
  to: number;
  total: number;
  byLevel: Map<LevelName | null, number>;
}

/** wanted: only these levels; empty: all lines, also those that name none. */
export function barsOf(data: Histogram, wanted: readonly LevelName[]): Bar[] {
  return data.num_lines.map((lines, i) => {
    const byLevel = new Map<LevelName | null, number>();
    let rest = lines;
    for (const level of LEVELS) {
      const n = data.levels[level]?.[i] ?? 0;
      rest -= n;
      if (n > 0 && (wanted.length === 0 || wanted.includes(level))) byLevel.set(level, n);
    }
    if (wanted.length === 0 && rest > 0) byLevel.set(null, rest);
    return {
      from: data.edges_ms[i] ?? 0,
      to: data.edges_ms[i + 1] ?? 0,
      total: [...byLevel.values()].reduce((sum, n) => sum + n, 0),
      byLevel,
    };
  });
}

const parts = (bar: Bar): [LevelName | null, number][] =>
  STACK.flatMap((level): [LevelName | null, number][] => {
    const n = bar.byLevel.get(level);
    return n === undefined ? [] : [[level, n]];
  });
