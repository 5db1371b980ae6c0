import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { RankSteps, TrialPerformance, Worker } from "../../../api/queries";
import { type Column, column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
import { Empty } from "../../../components/basics";
import * as format from "../../../lib/format";
import { LEAST_SHARE, PART_COLORS, rankRanges, STEP_PARTS } from "../../../lib/series/perf";
import css from "../trials.module.css";

const ORDERS = {
  rank: (r: RankSteps) => r.rank,
  step: (r: RankSteps) => r.step_ms,
  wait: (r: RankSteps) => r.wait_ms ?? -1,
  heldUp: (r: RankSteps) => r.held_up_ms ?? -1,
} as const;

/** What is measured beside the parts. */
const BESIDE = [
  { id: "idle", of: (r: RankSteps) => r.other_idle_ms },
  { id: "validation", of: (r: RankSteps) => r.validation_ms },
] as const;

type Order = keyof typeof ORDERS;

/** Every rank's step in its parts; in order of how much it holds up, a ranking of stragglers. */
export function RankTable({ ranks, nodes }: { ranks: RankSteps[]; nodes: Map<number, string> }) {
  const { t } = useTranslation();
  const [order, setOrder] = useState<{ by: Order; down: boolean }>({ by: "rank", down: false });
  if (ranks.length === 0) return <Empty title={t("ranks.none")} />;
  const slowest = Math.max(...ranks.map((r) => r.step_ms));
  const there = STEP_PARTS.filter((part) => ranks.some((r) => (r.parts[part] ?? 0) > r.step_ms * LEAST_SHARE));
  const sort = (by: Order) => ({
    direction: order.by === by ? (order.down ? ("desc" as const) : ("asc" as const)) : null,
    toggle: () => setOrder({ by, down: order.by === by ? !order.down : by !== "rank" }),
  });
  const rows = ranks.toSorted((a, b) => (ORDERS[order.by](a) - ORDERS[order.by](b)) * (order.down ? -1 : 1));
  const hinted = (value: number | null, hint: string) => <span title={hint}>{format.ms(value)}</span>;
  const columns: Column<RankSteps>[] = [
    {
      id: "rank",
      header: t("ranks.rank"),
      lead: true,
      sort: sort("rank"),
      cell: (r) => <b className={css["whole"]}>{t("rank.no", { rank: r.rank })}</b>,
    },
    column("node", t("ranks.node"), (r) => (
      <span className={css["nodeName"]}>{nodes.get(r.rank) ?? format.MISSING}</span>
    )),
    {
      id: "step",
      header: t("perf.step"),
      align: "right",
      sort: sort("step"),
      cell: (r) => <span title={t("perf.rows", { count: r.num_rows })}>{format.ms(r.step_ms)}</span>,
    },
    column("parts", t("perf.parts"), (r) => {
      const text = there.map((part) => `${t(`part.${part}`)} ${format.ms(r.parts[part])}`).join(", ");
      return (
        <span className={css["partbar"]} role="img" aria-label={text} title={text}>
          {there.map((part) => (
            <span
              key={part}
              style={{
                width: `${slowest > 0 ? (Math.max(0, r.parts[part] ?? 0) / slowest) * 100 : 0}%`,
                background: PART_COLORS[part],
              }}
            />
          ))}
        </span>
      );
    }),
    numeric("wait", t("perf.wait"), (r) => hinted(r.wait_ms, t("perf.waitHint")), { sort: sort("wait") }),
    numeric("heldUp", t("perf.heldUp"), (r) => hinted(r.held_up_ms, t("perf.heldUpHint")), { sort: sort("heldUp") }),
    ...BESIDE.filter(({ of }) => ranks.some((r) => of(r) !== null)).map(({ id, of }): Column<RankSteps> =>
      numeric(id, t(`perf.${id}`), (r) => hinted(of(r), t(`perf.${id}Hint`))),
    ),
    ...there.map((part): Column<RankSteps> =>
      numeric(part, t(`part.${part}`), (r) => (
        <span
          className={css["keyed"]}
          title={t("perf.ofStep", { share: format.pct(r.step_ms > 0 ? (r.parts[part] ?? 0) / r.step_ms : null) })}
        >
          <i style={{ background: PART_COLORS[part] }} aria-hidden />
          {format.ms(r.parts[part])}
        </span>
      )),
    ),
  ];
  return (
    <div className={css["byRank"]}>
      <DataTable rows={rows} columns={columns} rowKey={(r) => r.rank} label={t("perf.ranks")} testId="perf-ranks" />
    </div>
  );
}

/** perStep: every row is a step. */
export function TrafficTable({ traffic, perStep }: { traffic: TrialPerformance["traffic"]; perStep: boolean }) {
  const { t } = useTranslation();
  if (traffic.length === 0) return <Empty title={t("perf.noTraffic")}>{t("perf.noTrafficHint")}</Empty>;
  type Kind = TrialPerformance["traffic"][number];
  const hinted = (text: string, hint: string) => <span title={hint}>{text}</span>;
  const columns: Column<Kind>[] = [
    lead("kind", t("ranks.kind"), (k) => <b className="mono">{k.kind}</b>),
    column("group", t("ranks.group"), (k) => <span className="mono">{k.group}</span>),
    column("ranks", t("ranks.members"), (k) => rankRanges(k.ranks)),
    ...(traffic.some((k) => k.num_rows_with < k.num_rows)
      ? [
          numeric("rows", t("perf.seen"), (k: Kind) =>
            hinted(
              t(perStep ? "perf.inSteps" : "perf.inRows", {
                n: format.count(k.num_rows_with),
                all: format.count(k.num_rows),
              }),
              t("perf.seenHint", { time: format.ms(k.time_ms_with) }),
            ),
          ),
        ]
      : []),
    numeric("count", t("perf.count"), (k) => format.num(k.count, 3)),
    numeric("bytes", t("perf.bytes"), (k) => format.bytes(k.num_bytes)),
    numeric("time", t("perf.time"), (k) => hinted(format.ms(k.time_ms), t("perf.timeHint"))),
    numeric("transfer", t("perf.transfer"), (k) => hinted(format.ms(k.transfer_ms), t("perf.transferHint"))),
    numeric("wait", t("perf.wait"), (k) => hinted(format.ms(k.wait_ms), t("perf.waitHint"))),
    numeric("algorithm", t("perf.algorithm"), (k) =>
      hinted(format.si(k.algorithm_bytes_per_s, "B/s", 3), t("perf.algorithmHint")),
    ),
    numeric("bus", t("perf.bus"), (k) => hinted(format.si(k.bus_bytes_per_s, "B/s", 3), t("perf.busHint"))),
  ];
  return (
    <DataTable
      rows={traffic}
      columns={columns}
      rowKey={(k) => `${k.group} ${k.kind}`}
      label={t("perf.traffic")}
      testId="perf-traffic"
    />
  );
}

export function StageTable({ stages }: { stages: TrialPerformance["stages"] }) {
  const { t } = useTranslation();
  type Stage = TrialPerformance["stages"][number];
  const longest = Math.max(...stages.map((s) => s.step_ms));
  const width = (ms: number): string => `${longest > 0 ? (ms / longest) * 100 : 0}%`;
  const columns: Column<Stage>[] = [
    lead("stage", t("perf.stage"), (s) => <b>{`${t("perf.stage")} ${s.stage}`}</b>),
    column("ranks", t("ranks.members"), (s) => rankRanges(s.ranks)),
    column("bar", t("perf.parts"), (s) => {
      const text = `${t("perf.compute")} ${format.ms(s.compute_ms)}, ${t("part.pipeline/bubble_ms")} ${format.ms(s.bubble_ms)}`;
      return (
        <span className={css["partbar"]} role="img" aria-label={text} title={text}>
          <span style={{ width: width(s.compute_ms), background: "var(--series-0)" }} />
          <span style={{ width: width(s.bubble_ms), background: "var(--part-bubble)" }} />
        </span>
      );
    }),
    numeric("compute", t("perf.compute"), (s) => format.ms(s.compute_ms)),
    numeric("bubble", t("part.pipeline/bubble_ms"), (s) => format.ms(s.bubble_ms)),
    numeric("share", t("perf.bubbleShare"), (s) => format.pct(s.step_ms > 0 ? s.bubble_ms / s.step_ms : null)),
    numeric("step", t("perf.step"), (s) => format.ms(s.step_ms)),
  ];
  return (
    <DataTable rows={stages} columns={columns} rowKey={(s) => s.stage} label={t("perf.stages")} testId="perf-stages" />
  );
}

const MEMORY = [
  ["memory/rss_bytes", "rss"],
  ["memory/rss_peak_bytes", "rssPeak"],
  ["memory/allocated_bytes", "allocated"],
  ["memory/peak_bytes", "gpuPeak"],
  ["memory/reserved_bytes", "reserved"],
] as const;

export function MemoryTable({ workers }: { workers: Worker[] }) {
  const { t } = useTranslation();
  const there = MEMORY.filter(([name]) => workers.some((w) => w.latest[name] !== undefined));
  if (there.length === 0) return <Empty title={t("ranks.none")} />;
  const headers = {
    rss: t("perf.rss"),
    rssPeak: t("perf.rssPeak"),
    allocated: t("perf.allocated"),
    gpuPeak: t("perf.gpuPeak"),
    reserved: t("perf.reserved"),
  };
  const columns: Column<Worker>[] = [
    lead("rank", t("ranks.rank"), (w) => <b>{t("rank.no", { rank: w.rank })}</b>),
    column("node", t("ranks.node"), (w) => w.node_name),
    column("device", t("ranks.device"), (w) => w.device),
    ...there.map(([name, key]): Column<Worker> => numeric(name, headers[key], (w) => format.bytes(w.latest[name]))),
  ];
  return (
    <DataTable rows={workers} columns={columns} rowKey={(w) => w.rank} label={t("perf.memory")} testId="perf-memory" />
  );
}
