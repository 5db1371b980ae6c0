import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type SystemMetrics, systemMetrics } from "../../api/queries";
import { Empty } from "../../components/basics";
import { column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { QueryView } from "../../components/QueryView";
import { useNow } from "../../components/useNow";
import * as format from "../../lib/format";
import { pathOf, rowsOf, type SystemRow } from "./systemRows";

const WIDTH = 220;
const HEIGHT = 24;

/** How busy a node was over the last hour, with the ranks that run there. node: its id or name. */
export function SystemMetricsView({ node }: { node: string }) {
  const query = useQuery(systemMetrics(node));
  return <QueryView query={query}>{(data) => <Busy data={data} />}</QueryView>;
}

function Busy({ data }: { data: SystemMetrics }) {
  const { t } = useTranslation();
  const rows = rowsOf(data);
  const times = data.times.map((at) => Date.parse(at));
  const { ranks } = data;
  if (rows.length === 0) return <Empty title={t("nodes.busy.none")} />;
  return (
    <>
      {ranks.length > 0 ? (
        <p data-testid="node-ranks">
          {t("nodes.busy.ranks")}
          {ranks.map((r, i) => (
            <span key={`${r.trial_id}-${r.rank}`}>
              {i > 0 ? ", " : ""}
              <Link to="/trials/$trialId" params={{ trialId: String(r.trial_id) }}>
                {t("nodes.busy.rank", { trial: r.trial_id, rank: r.rank, slot: r.slot })}
              </Link>
            </span>
          ))}
        </p>
      ) : null}
      <DataTable<SystemRow>
        rows={rows}
        rowKey={(row) => row.name}
        label={t("nodes.system")}
        testId="system-metrics"
        columns={[
          lead("name", t("nodes.busy.figure"), (row) => (
            <>
              {t(`nodes.busy.${row.label}`, { index: row.index ?? 0 })}{" "}
              {row.of ? <span className="mono">{row.of}</span> : null}
              {row.index !== null && data.ranks.some((r) => r.slot_type === "cuda" && r.slot === row.index) ? (
                <span className="dim">
                  {" "}
                  {data.ranks
                    .filter((r) => r.slot_type === "cuda" && r.slot === row.index)
                    .map((r) => t("rank.no", { rank: r.rank }))
                    .join(", ")}
                </span>
              ) : null}
            </>
          )),
          numeric("last", t("nodes.busy.now"), (row) => show(row, row.last)),
          column("line", t("nodes.busy.lastHour"), (row) => (
            <Line row={row} times={times} label={t("nodes.busy.most", { value: show(row, row.most) })} />
          )),
        ]}
      />
      {data.gpu_problem ? <p className="dim">{t("nodes.busy.gpuProblem", { problem: data.gpu_problem })}</p> : null}
    </>
  );
}

function show(row: SystemRow, value: number | null): string {
  if (value === null) return format.MISSING;
  if (row.unit === "pct") return format.pct(value / 100);
  if (row.unit === "bytes") return format.bytes(value);
  if (row.unit === "bytes_per_s") return `${format.bytes(value)}/s`;
  return `${format.num(value, 3)} ${row.unit}`;
}

/** Along the last hour, from nought to the most there can be, or has been; a gap where nothing was told. */
function Line({ row, times, label }: { row: SystemRow; times: number[]; label: string }) {
  const now = useNow();
  return (
    <svg width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <title>{label}</title>
      <path
        d={pathOf(row.values, times, { now, top: row.top, width: WIDTH, height: HEIGHT })}
        fill="none"
        stroke="var(--series-0)"
        strokeWidth={1.5}
      />
    </svg>
  );
}
