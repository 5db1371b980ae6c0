import { ActionIcon, Tooltip } from "@mantine/core";
import { IconChartLine, IconTable } from "@tabler/icons-react";
import { type KeyboardEvent, type ReactNode, type Ref, useState } from "react";
import { useTranslation } from "react-i18next";

import * as format from "../lib/format";
import css from "./chart.module.css";
import { download, fileName, quoted } from "./export";
import { type FileKind, SaveMenu } from "./SaveMenu";
import { dotPath, type Key, type Picture, toPixels } from "./svgFile";

const TABLE_ROWS = 200;

/** What a figure shows, cell by cell: as people read it, and as a program does (null: not known). */
export interface FigureTable {
  head: string[];
  rows: { text: string; raw: string | number | null }[][];
}

/** The cells as a file; an empty one is not known. */
export function tableCsv(table: FigureTable): string {
  const lines = [
    table.head.map(quoted),
    ...table.rows.map((row) => row.map((cell) => (cell.raw === null ? "" : quoted(String(cell.raw))))),
  ];
  return `${lines.map((line) => line.join(",")).join("\n")}\n`;
}

interface Props {
  title: string;
  unit?: string;
  height: number;
  keys: readonly Key[];
  /** Asked for when somebody looks at it or keeps it. */
  table: () => FigureTable;
  /** What is drawn now, for a file; null: nothing is. */
  picture: () => Picture | null;
  testId: string;
  /** The keyboard reaches the figure and this hears it, while it is a drawing. */
  onKeyDown?: (event: KeyboardEvent) => void;
  keyHelp?: string;
  foot?: ReactNode;
  /** More entries of its menu. */
  menu?: ReactNode;
  /** The box that is drawn into. */
  box?: Ref<HTMLDivElement>;
  children: ReactNode;
}

/** A drawing with a title and a legend, a table behind it, and files of both. */
export function Figure({
  title,
  unit,
  height,
  keys,
  table,
  picture,
  testId,
  onKeyDown,
  keyHelp,
  foot,
  menu,
  box,
  children,
}: Props) {
  const { t } = useTranslation();
  const [asTable, setAsTable] = useState(false);
  const save = async (kind: FileKind): Promise<void> => {
    const name = fileName(title);
    if (kind === "csv") return download(`${name}.csv`, tableCsv(table()), "text/csv");
    const drawn = picture();
    if (!drawn) return undefined;
    if (kind === "svg") return download(`${name}.svg`, drawn.text, "image/svg+xml");
    const blob = await toPixels(drawn);
    return blob ? download(`${name}.png`, blob) : undefined;
  };
  const toggle = t(asTable ? "chart.asChart" : "chart.asTable");
  const reachable =
    onKeyDown && !asTable ? { tabIndex: 0, onKeyDown, "aria-description": keyHelp, "data-keys": "points" } : {};
  return (
    <figure className={css["figure"]} aria-label={title} data-testid={testId} {...reachable}>
      <div className={css["head"]}>
        <h3 title={title}>{title}</h3>
        {unit ? <span className="dim">{unit}</span> : null}
        <span className={css["tools"]}>
          <Tooltip label={toggle}>
            <ActionIcon
              size="sm"
              variant="subtle"
              color="gray"
              aria-label={toggle}
              onClick={() => setAsTable(!asTable)}
              data-testid={`${testId}-table`}
            >
              {asTable ? <IconChartLine size={14} /> : <IconTable size={14} />}
            </ActionIcon>
          </Tooltip>
          {asTable ? null : (
            <SaveMenu title={title} data={["csv"]} onSave={(kind) => void save(kind)}>
              {menu}
            </SaveMenu>
          )}
        </span>
      </div>
      {asTable || keys.length === 0 ? null : (
        <div className={css["legend"]}>
          {keys.map((key) => (
            <span key={key.label} className={css["key"]}>
              <Mark of={key} />
              {key.label}
            </span>
          ))}
        </div>
      )}
      <div className={css["plot"]} ref={box} style={{ minHeight: height }}>
        {asTable ? <Cells table={table()} label={title} height={height} /> : children}
      </div>
      {asTable ? null : foot}
    </figure>
  );
}

/** A dashed border of that length would look like a line. */
function Mark({ of: { shape, color } }: { of: Key }) {
  if (shape === "square") return <i data-square style={{ background: color }} />;
  if (shape === "line" || shape === "dashed")
    return (
      <svg width={14} height={4} aria-hidden>
        <line
          x1={0}
          x2={14}
          y1={2}
          y2={2}
          stroke={color}
          strokeWidth={2}
          strokeDasharray={shape === "dashed" ? "4 3" : undefined}
        />
      </svg>
    );
  return (
    <svg width={12} height={12} aria-hidden>
      <path d={dotPath(shape, 6, 6)} fill={color} />
    </svg>
  );
}

/** The first rows; the file has all. */
export function CellTable({ table, label }: { table: FigureTable; label: string }) {
  const { t } = useTranslation();
  const shown = table.rows.slice(0, TABLE_ROWS);
  return (
    <table aria-label={label}>
      {shown.length < table.rows.length ? (
        <caption>
          {t("chart.firstRows", { n: format.count(shown.length), all: format.count(table.rows.length) })}
        </caption>
      ) : null}
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
        {shown.map((row) => (
          <tr key={row.map((cell) => cell.text).join("\u0000")}>
            {row.map((cell, i) => (
              <td key={table.head[i]}>{cell.text}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The table in a box of the figure's height. */
function Cells({ table, label, height }: { table: FigureTable; label: string; height: number }) {
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["table"]} style={{ maxHeight: Math.max(height, 320) }} tabIndex={0}>
      <CellTable table={table} label={label} />
    </div>
  );
}
