import "../i18n/en/charts";

import { ActionIcon, Tooltip } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { IconChartLine, IconTable } from "@tabler/icons-react";
import { type ReactNode, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import css from "./chart.module.css";
import { download, fileName, quoted } from "./export";
import { type FileKind, SaveMenu } from "./SaveMenu";
import { type Key, toPicture, toPixels } from "./svgFile";

/** What a figure shows, cell by cell: as people read it, and as a program does (null: not known). */
export interface FigureTable {
  head: string[];
  rows: { text: string; raw: string | number | null }[][];
}

/** The cells as a file; an empty one is not known. */
export function tableCsv(table: FigureTable): string {
  const lines = [table.head.map(quoted), ...table.rows.map((row) => row.map((cell) => (cell.raw === null ? "" : quoted(String(cell.raw)))))];
  return `${lines.map((line) => line.join(",")).join("\n")}\n`;
}

/** A small drawing with a legend, a table behind it, and files of both. Colours in it are CSS tokens. */
export function SvgFigure({ title, unit, label, height, keys, table, testId, children }: { title: string; unit?: string; label: string; height: number; keys: readonly Key[]; table: FigureTable; testId: string; children: (width: number) => ReactNode }) {
  const { t } = useTranslation();
  const { ref, width } = useElementSize();
  const svg = useRef<SVGSVGElement>(null);
  const [asTable, setAsTable] = useState(false);
  const save = async (kind: FileKind): Promise<void> => {
    const name = fileName(title);
    if (kind === "csv") return download(`${name}.csv`, tableCsv(table), "text/csv");
    if (!svg.current) return undefined;
    const picture = toPicture(svg.current, title, keys);
    if (kind === "svg") return download(`${name}.svg`, picture.text, "image/svg+xml");
    const blob = await toPixels(picture);
    return blob ? download(`${name}.png`, blob) : undefined;
  };
  const toggle = t(asTable ? "chart.asChart" : "chart.asTable");
  return (
    <figure className={css["figure"]} aria-label={title} data-testid={testId}>
      <div className={css["head"]}>
        <h3>{title}</h3>
        {unit ? <span className="dim">{unit}</span> : null}
        <span className={css["tools"]}>
          <Tooltip label={toggle}>
            <ActionIcon size="sm" variant="subtle" color="gray" aria-label={toggle} onClick={() => setAsTable(!asTable)} data-testid={`${testId}-table`}>
              {asTable ? <IconChartLine size={14} /> : <IconTable size={14} />}
            </ActionIcon>
          </Tooltip>
          {asTable ? null : <SaveMenu title={title} data={["csv"]} onSave={(kind) => void save(kind)} />}
        </span>
      </div>
      {asTable ? null : (
        <div className={css["legend"]}>
          {keys.map((key) => (
            <span key={key.label} className={css["key"]}>
              <Mark of={key} />
              {key.label}
            </span>
          ))}
        </div>
      )}
      <div className={css["plot"]} ref={ref} style={{ minHeight: height }}>
        {asTable ? (
          <Cells table={table} label={title} />
        ) : width > 0 ? (
          <svg ref={svg} width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label} style={{ display: "block" }}>
            {children(width)}
          </svg>
        ) : null}
      </div>
    </figure>
  );
}

/** A dashed border of that length would look like a line. */
function Mark({ of: { shape, color } }: { of: Key }) {
  if (shape === "square") return <i data-square style={{ background: color }} />;
  return (
    <svg width={14} height={4} aria-hidden>
      <line x1={0} x2={14} y1={2} y2={2} stroke={color} strokeWidth={2} strokeDasharray={shape === "dashed" ? "4 3" : undefined} />
    </svg>
  );
}

function Cells({ table, label }: { table: FigureTable; label: string }) {
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["table"]} tabIndex={0}>
      <table aria-label={label}>
        <thead>
          <tr>
            {table.head.map((name) => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr key={row.map((cell) => cell.text).join("\u0000")}>
              {row.map((cell, i) => (
                <td key={table.head[i]}>{cell.text}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
