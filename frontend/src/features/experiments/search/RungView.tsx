import { SegmentedControl, Switch } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import type { Search } from "../../../api/queries";
import { Notice } from "../../../components/basics";
import { column, DataTable, numeric } from "../../../components/tables/DataTable";
import * as format from "../../../lib/format";
import { lengthText } from "../../../lib/text/lengthText";
import { fateOf, layoutRungs, type RungDot } from "./rungs";
import css from "./search.module.css";

/** Successive halving made visible: who went on at each rung, who stopped, and where the line was. */
export function RungView({ search: all }: { search: Search }) {
  const { t } = useTranslation();
  const [bracket, setBracket] = useState(0);
  const brackets = [...new Set(all.rungs.map((rung) => rung.bracket))];
  const search = { ...all, rungs: all.rungs.filter((rung) => rung.bracket === bracket) };
  const { ref, width } = useElementSize();
  const [table, setTable] = useState(false);
  const layout = layoutRungs(search, Math.max(320, width - 18));
  const unit = search.unit ?? "";
  const nonFinite = layout.columns.reduce((sum, column) => sum + column.nonFinite, 0);
  const outran = search.rungs.reduce((sum, rung) => sum + rung.num_outran, 0);
  const fullest = Math.max(0, ...search.rungs.map((rung) => rung.num_trials));
  const shown = Math.max(0, ...search.rungs.map((rung) => rung.trials.length));
  return (
    <div>
      {fullest > shown && shown > 0 ? (
        <p className="dim" data-testid="rung-cut">
          {t("maps.rungCut", { shown, count: fullest })}
        </p>
      ) : null}
      {layout.numLinks > layout.links.length && !table ? (
        <p className="dim" data-testid="rung-links-cut">
          {t("maps.rungLinksCut", { shown: format.count(layout.links.length), all: format.count(layout.numLinks) })}
        </p>
      ) : null}
      {brackets.length > 1 ? (
        <SegmentedControl
          aria-label={t("search.bracket")}
          size="xs"
          mb="xs"
          value={String(bracket)}
          onChange={(value) => setBracket(Number(value))}
          data={brackets.map((no) => ({
            value: String(no),
            label: t("search.bracketNo", { no: no + 1, count: all.rungs.filter((rung) => rung.bracket === no).length }),
          }))}
        />
      ) : null}
      {outran > 0 ? (
        <p className="dim" data-testid="outran">
          {t("search.outranAll", { count: outran })}
        </p>
      ) : null}
      <Switch label={t("chart.asTable")} checked={table} onChange={(e) => setTable(e.currentTarget.checked)} mb="xs" />
      {nonFinite > 0 ? <Notice tone="warn" title={t("search.nonFinite", { count: nonFinite })} /> : null}
      {table ? (
        <RungTable search={search} />
      ) : (
        <div className={css["rungs"]} ref={ref} data-testid="rung-view">
          <RungFigure layout={layout} unit={unit} />
        </div>
      )}
      <div className={css["key"]}>
        {(["promoted", "stopped", ...(outran > 0 ? (["outran"] as const) : []), "waiting", "finished"] as const).map(
          (fate) => (
            <span key={fate}>
              <svg width="14" height="14" aria-hidden>
                <Mark fate={fate} x={7} y={7} on={false} />
              </svg>
              {t(`search.${fate}`)}
            </span>
          ),
        )}
        <span>
          <svg width="22" height="6" aria-hidden>
            <line x1="0" x2="22" y1="3" y2="3" stroke="var(--warn)" strokeWidth="1.5" strokeDasharray="6 3" />
          </svg>
          {t("search.cutoffKey")}
        </span>
        {layout.log ? <span>{t("search.logAxis")}</span> : null}
      </div>
    </div>
  );
}

type Layout = ReturnType<typeof layoutRungs>;

/** Each trial's value at each rung, with lines to the next one that it reached. */
function RungFigure({ layout, unit }: { layout: Layout; unit: string }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [hover, setHover] = useState<number | null>(null);
  const go = (id: number): void => void navigate({ to: "/trials/$trialId", params: { trialId: String(id) } });
  return (
    <svg width={layout.width} height={layout.height} role="group" aria-label={t("search.rungs")}>
      {layout.ticks.map((tick) => (
        <g key={tick.y}>
          <line x1={layout.left - 6} x2={layout.width} y1={tick.y} y2={tick.y} stroke="var(--grid)" />
          <text x={layout.left - 10} y={tick.y + 4} textAnchor="end" className={css["axis"]}>
            {format.num(tick.value, 3)}
          </text>
        </g>
      ))}
      {layout.columns.map((column) => (
        <RungColumn
          key={column.index}
          column={column}
          isLast={column === layout.columns.at(-1)}
          height={layout.height}
          unit={unit}
        />
      ))}
      {layout.links.map(({ from, to }) => (
        <line
          key={`${from.trialId}:${from.rung}`}
          x1={from.x}
          y1={from.y}
          x2={to.x}
          y2={to.y}
          stroke={hover === from.trialId ? "var(--accent)" : "var(--line-strong)"}
          strokeWidth={hover === from.trialId ? 2 : 1}
        />
      ))}
      {layout.dots.map((dot) => {
        const label = t("search.dot", {
          no: dot.trialNo,
          value: format.num(dot.value),
          fate: t(`search.${dot.fate}`),
        });
        return (
          <g
            key={`${dot.rung}:${dot.trialId}`}
            className={css["dot"]}
            role="link"
            tabIndex={0}
            aria-label={label}
            onClick={() => go(dot.trialId)}
            onKeyDown={(e: KeyboardEvent) => {
              if (e.key === "Enter") go(dot.trialId);
            }}
            onMouseEnter={() => setHover(dot.trialId)}
            onMouseLeave={() => setHover(null)}
            onFocus={() => setHover(dot.trialId)}
            onBlur={() => setHover(null)}
          >
            <title>{label}</title>
            <Mark fate={dot.fate} x={dot.x} y={dot.y} on={hover === dot.trialId} />
          </g>
        );
      })}
    </svg>
  );
}

interface ColumnProps {
  column: Layout["columns"][number];
  isLast: boolean;
  height: number;
  unit: string;
}

/** In less, the figures of a column run into those of the next one. */
const NARROW_PX = 180;

function RungColumn({ column, isLast, height, unit }: ColumnProps) {
  const { t } = useTranslation();
  return (
    <g>
      {column.index > 0 ? <line x1={column.x} x2={column.x} y1={8} y2={height - 6} stroke="var(--line)" /> : null}
      <text x={column.x + column.width / 2} y={18} textAnchor="middle" className={css["head"]}>
        {lengthText(t, column.units, unit)}
      </text>
      <text x={column.x + column.width / 2} y={34} textAnchor="middle" className={css["axis"]}>
        {isLast
          ? t("search.columnLast", { reported: column.reported })
          : t(column.width < NARROW_PX ? "search.columnNarrow" : "search.column", {
              reported: column.reported,
              promoted: column.promoted,
            })}
      </text>
      {column.cutoffY === null ? null : (
        <g>
          <line
            x1={column.x + 6}
            x2={column.x + column.width - 6}
            y1={column.cutoffY}
            y2={column.cutoffY}
            stroke="var(--warn)"
            strokeWidth={1.5}
            strokeDasharray="6 3"
          />
          <title>{t("search.cutoffAt", { value: format.num(column.cutoff) })}</title>
        </g>
      )}
    </g>
  );
}

function RungTable({ search }: { search: Search }) {
  const { t } = useTranslation();
  const rows = search.rungs.flatMap((rung) => rung.trials.map((trial) => ({ rung, trial })));
  return (
    <DataTable<(typeof rows)[number]>
      rows={rows}
      rowKey={(row) => `${row.rung.index}:${row.trial.trial_id}`}
      label={t("search.rungs")}
      cards={false}
      columns={[
        numeric("rung", t("search.rung"), (row) => row.rung.index),
        numeric("units", search.unit ?? "", (row) => format.num(row.rung.units)),
        numeric("trial", t("trials.trial"), (row) => row.trial.trial_no),
        numeric("metric", search.metric_name ?? t("experiment.metric"), (row) => format.num(row.trial.metric)),
        numeric("cutoff", t("search.cutoff"), (row) => format.num(row.rung.cutoff)),
        column("fate", t("search.fate"), (row) => t(`search.${fateOf(row.trial, row.rung === search.rungs.at(-1))}`)),
      ]}
    />
  );
}

/** Fates differ by shape as well as by colour. */
function Mark({ fate, x, y, on }: { fate: RungDot["fate"]; x: number; y: number; on: boolean }) {
  const r = on ? 6 : 4.5;
  if (fate === "promoted")
    return <circle cx={x} cy={y} r={r} fill="var(--series-0)" stroke="var(--bg)" strokeWidth={1} />;
  if (fate === "stopped")
    return <circle cx={x} cy={y} r={r - 0.5} fill="var(--bg)" stroke="var(--text-3)" strokeWidth={1.5} />;
  if (fate === "outran")
    return (
      <path
        d={`M${x - r} ${y + r - 1}h${2 * r}L${x} ${y - r}z`}
        fill="var(--bg)"
        stroke="var(--warn)"
        strokeWidth={1.5}
      />
    );
  if (fate === "finished")
    return (
      <rect
        x={x - r + 0.5}
        y={y - r + 0.5}
        width={2 * r - 1}
        height={2 * r - 1}
        fill="var(--ok)"
        stroke="var(--bg)"
        strokeWidth={1}
      />
    );
  return (
    <rect
      x={x - r + 1}
      y={y - r + 1}
      width={2 * r - 2}
      height={2 * r - 2}
      transform={`rotate(45 ${x} ${y})`}
      fill="var(--series-1)"
      stroke="var(--bg)"
      strokeWidth={1}
    />
  );
}
