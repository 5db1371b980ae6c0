import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { type PoolSlots, type PoolUtilization, utilization, type Utilization as Data } from "../../api/queries";
import { SvgFigure } from "../../charts/SvgFigure";
import { wallTick } from "../../charts/series/ticks";
import { Section, Skeleton } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { useTimeZone } from "../../components/Time";
import * as format from "../../lib/format";
import { usePref } from "../../lib/prefs";
import { parseAt, serverNow, stamp, type TimeZone } from "../../lib/time";
import css from "./cluster.module.css";
import { area, fromFirstKnown, instants, meanShare, PERIODS_H, slotsOf, usualPeriod } from "./utilization";

/** One pool alone is as tall as five rows of the queue beside it. */
const ALONE_PX = 200;
const TALL_PX = 132;
const LOW_PX = 64;
const PERIOD_KEYS = { 1: "h1", 6: "h6", 24: "h24", 168: "h168" } as const;
const GUTTER_PX = 30;
const FOOT_PX = 18;

interface Props {
  /** When the first of the nodes joined. */
  since: string | null;
  /** The slots of each pool now: those of the cluster, whose sum stands above. */
  now: readonly PoolSlots[];
  /** Whether little is beside it. */
  isLow: boolean;
}

/** How many slots of each pool were in use over time. */
export function Utilization({ since, now, isLow }: Props) {
  const { t } = useTranslation();
  const [pref, setPref] = usePref("utilization-hours");
  const hours = PERIODS_H.find((period) => String(period) === pref) ?? usualPeriod(parseAt(since), serverNow());
  const query = useQuery(utilization(hours));
  return (
    <Section
      title={t("overview.utilization")}
      note={
        <SegmentedControl
          size="xs"
          aria-label={t("overview.period")}
          value={String(hours)}
          onChange={setPref}
          data={PERIODS_H.map((period) => ({
            value: String(period),
            label: t(`overview.periods.${PERIOD_KEYS[period]}`),
          }))}
        />
      }
      testId="utilization"
    >
      <QueryView query={query} skeleton={<Skeleton rows={5} />}>
        {(data) => <Pools {...{ data, since, now, isLow }} />}
      </QueryView>
    </Section>
  );
}

/** A drawing for each pool, from when something is known on: a young cluster is not a small corner of an empty hour. */
function Pools({ data, since, now, isLow }: Props & { data: Data }) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const shown = fromFirstKnown(data);
  const num = shown.pools.length;
  const isYoung = shown !== data && !data.complete_since && since !== null;
  return (
    <>
      <div className={css["pools"]}>
        {shown.pools.map((pool) => (
          <PoolFigure
            key={`${pool.pool}/${pool.slot_type}`}
            pool={pool}
            now={slotsOf(now, pool)}
            data={shown}
            height={num === 1 && !isLow ? ALONE_PX : num > 2 ? LOW_PX : TALL_PX}
          />
        ))}
      </div>
      {data.complete_since ? <p className="dim">{t("overview.utilizationCut")}</p> : null}
      {isYoung ? (
        <p className={css["stripNote"]}>{t("overview.utilizationSince", { at: stamp(parseAt(since) ?? 0, zone) })}</p>
      ) : null}
    </>
  );
}

interface PoolProps {
  pool: PoolUtilization;
  now: PoolSlots;
  data: Data;
  height: number;
}

function PoolFigure({ pool, now, data, height }: PoolProps) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const title = t("overview.poolSlots", { pool: pool.pool, type: pool.slot_type });
  const share = meanShare(pool.held, now.num_slots);
  const summary = t("overview.poolUse", {
    used: now.num_slots_used,
    all: now.num_slots,
    mean: share === null ? format.MISSING : format.pct(share),
  });
  const most = Math.max(now.num_slots, ...pool.held.map((value) => value ?? 0), 1);
  return (
    <SvgFigure
      title={title}
      unit={summary}
      label={`${title}: ${summary}`}
      height={height + FOOT_PX}
      keys={[]}
      table={{
        head: [t("overview.from"), t("overview.slotsBusy")],
        rows: data.times.map((at, i) => [
          { text: stamp(parseAt(at) ?? 0, zone), raw: at },
          { text: format.num(pool.held[i], 3), raw: pool.held[i] ?? null },
        ]),
      }}
      testId={`utilization-${pool.pool}-${pool.slot_type}`}
    >
      {(width) => <Drawing {...{ pool, data, height, width, most, zone }} />}
    </SvgFigure>
  );
}

interface DrawingProps {
  pool: PoolUtilization;
  data: Data;
  height: number;
  width: number;
  most: number;
  zone: TimeZone;
}

function Drawing({ pool, data, height, width, most, zone }: DrawingProps) {
  const wide = Math.max(0, width - GUTTER_PX);
  const from = parseAt(data.times[0]) ?? 0;
  const to = from + data.times.length * data.bucket_s * 1000;
  const x = (at: number): number => GUTTER_PX + ((at - from) / Math.max(1, to - from)) * wide;
  const shift = zone === "utc" ? 0 : -new Date(from).getTimezoneOffset() * 60_000;
  // The line at the top of the box keeps its whole width.
  const top = 1;
  const tall = height - top;
  return (
    <>
      {[0, 0.5, 1].map((part) => (
        <line
          key={part}
          x1={GUTTER_PX}
          x2={width}
          y1={top + tall * (1 - part)}
          y2={top + tall * (1 - part)}
          stroke={part === 0 ? "var(--line-strong)" : "var(--grid)"}
        />
      ))}
      {[...new Set([0, most])].map((value) => (
        <text
          key={value}
          x={GUTTER_PX - 6}
          y={value === 0 ? height : 10}
          textAnchor="end"
          fontSize={11}
          fill="var(--text-2)"
        >
          {value}
        </text>
      ))}
      <g transform={`translate(${GUTTER_PX} ${top})`}>
        <path d={area(pool.held, wide, tall, most)} fill="var(--run)" fillOpacity={0.22} stroke="var(--run)" />
      </g>
      {instants(from, to, shift).map((at) => (
        <text
          key={at}
          x={x(at)}
          y={height + 13}
          fontSize={11}
          fill="var(--text-2)"
          textAnchor={x(at) > width - 24 ? "end" : x(at) < GUTTER_PX + 16 ? "start" : "middle"}
        >
          {wallTick(at, zone, false)}
        </text>
      ))}
    </>
  );
}
