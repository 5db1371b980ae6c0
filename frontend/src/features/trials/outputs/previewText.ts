/** How the beginning of a file is shown: as text, or as a table. Nothing of it is ever run. */

export type Shown = { kind: "text"; text: string } | { kind: "table"; rows: string[][] };

const MAX_ROWS = 200;
const MAX_COLUMNS = 30;

/** What to show of a file's text. A text that was cut off, or is not what its name says, stays as it is. */
export function shownOf(path: string, text: string): Shown {
  const suffix = /\.[a-z0-9]+$/i.exec(path.replace(/ @node\d+\+*$/, ""))?.[0].toLowerCase();
  if (suffix === ".csv" || suffix === ".tsv") {
    const rows = rowsOf(text, suffix === ".csv" ? "," : "\t");
    if (rows.length > 1 && (rows[0]?.length ?? 0) > 1) return { kind: "table", rows };
  }
  if (suffix === ".json" || suffix === ".ipynb") {
    const value = parsed(text);
    if (suffix === ".ipynb" && isNotebook(value)) return { kind: "text", text: notebookText(value) };
    if (value !== undefined) return { kind: "text", text: JSON.stringify(value, null, 2) };
  }
  return { kind: "text", text };
}

/** The first rows of a text with separators; quotes may hold separators, line breaks and doubled quotes. */
export function rowsOf(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let isQuoted = false;
  const endCell = () => {
    if (row.length < MAX_COLUMNS) row.push(cell);
    cell = "";
  };
  for (let at = 0; at < text.length && rows.length < MAX_ROWS; at++) {
    const letter = text[at] as string;
    if (isQuoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') cell += text[++at] as string;
      else isQuoted = false;
    } else if (letter === '"' && cell === "") isQuoted = true;
    else if (letter === separator) endCell();
    else if (letter === "\n") {
      endCell();
      rows.push(row);
      row = [];
    } else if (letter !== "\r") cell += letter;
  }
  if (rows.length < MAX_ROWS && (cell !== "" || row.length > 0)) {
    endCell();
    rows.push(row);
  }
  return rows;
}

interface Cell {
  cell_type?: unknown;
  source?: unknown;
  outputs?: unknown;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isNotebook(value: unknown): value is { cells: Cell[] } {
  return typeof value === "object" && value !== null && Array.isArray((value as { cells?: unknown }).cells);
}

function linesOf(source: unknown): string {
  if (Array.isArray(source)) return source.filter((line) => typeof line === "string").join("");
  return typeof source === "string" ? source : "";
}

/** Cells one below the other, with the text that they printed. */
function notebookText(notebook: { cells: Cell[] }): string {
  return notebook.cells
    .map((cell, no) => {
      const printed = (Array.isArray(cell.outputs) ? (cell.outputs as Record<string, unknown>[]) : [])
        .map((output) =>
          linesOf(output["text"] ?? (output["data"] as Record<string, unknown> | undefined)?.["text/plain"]),
        )
        .filter(Boolean);
      const head = `# [${no + 1}] ${String(cell.cell_type ?? "")}`;
      return [head, linesOf(cell.source), ...printed.map((text) => `# →\n${text}`)].join("\n");
    })
    .join("\n\n");
}
