/** A page as one HTML file that needs nothing else: no server, no account, no script. Pure. */
import type { Palette } from "./palette";
import { xml } from "./export";

export interface PageTable {
  title: string;
  head: readonly string[];
  rows: readonly (readonly string[])[];
}

export interface PageFile {
  title: string;
  lang: string;
  /** What stands below the title. */
  facts: readonly string[];
  /** Words about what is not in it; none is silently left out. */
  remarks: readonly string[];
  /** Elements that were made here or drawn by React, already escaped. */
  panels: readonly string[];
  groups: readonly { title: string; charts: readonly string[] }[];
  tables: readonly PageTable[];
  palette: Palette;
}

const tableHtml = ({ title, head, rows }: PageTable): string =>
  `<h2>${xml(title)}</h2><table><thead><tr>${head.map((cell) => `<th>${xml(cell)}</th>`).join("")}</tr></thead><tbody>${rows
    .map((row) => `<tr>${row.map((cell) => `<td>${xml(cell)}</td>`).join("")}</tr>`)
    .join("")}</tbody></table>`;

const style = ({ bg, text, text2, grid, line, series }: Palette): string =>
  `body{font:14px/1.5 Inter,system-ui,sans-serif;background:${bg};color:${text};max-width:1240px;margin:24px auto;padding:0 16px}` +
  `h1{font-size:20px;margin:0 0 2px}h2{font-size:13px;font-weight:600;margin:24px 0 8px}` +
  `h3,h4,h5,h6{font-size:13px;margin:8px 0 4px}p{margin:2px 0}.dim{color:${text2}}a{color:${series[0] ?? text}}` +
  `.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:10px}` +
  `figure{margin:0;border:1px solid ${grid};border-radius:6px;padding:6px;overflow:auto}` +
  `svg,img{display:block;width:100%;height:auto}pre{overflow:auto;border:1px solid ${grid};padding:8px}` +
  `table{border-collapse:collapse;font-size:12px;font-variant-numeric:tabular-nums}` +
  `th,td{text-align:left;padding:3px 16px 3px 0;border-bottom:1px solid ${grid}}th{color:${text2};font-weight:500;border-color:${line}}`;

/** The file. Its policy lets it load nothing and run nothing, whatever names and texts are in it. */
export function pageFile({ title, lang, facts, remarks, panels, groups, tables, palette }: PageFile): string {
  const figure = (inner: string): string => `<figure>${inner}</figure>`;
  const policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
  return (
    `<!doctype html>\n<html lang="${xml(lang)}"><head><meta charset="utf-8">` +
    `<meta http-equiv="Content-Security-Policy" content="${policy}">` +
    `<meta name="viewport" content="width=device-width,initial-scale=1">` +
    `<title>${xml(title)}</title><style>${style(palette)}</style></head><body>` +
    `<h1>${xml(title)}</h1>${facts.map((fact) => `<p class="dim">${xml(fact)}</p>`).join("")}` +
    (panels.length > 0 ? `<h2></h2><div class="grid">${panels.map(figure).join("")}</div>` : "") +
    groups
      .map((group) => `<h2>${xml(group.title)}</h2><div class="grid">${group.charts.map(figure).join("")}</div>`)
      .join("") +
    tables.map(tableHtml).join("") +
    remarks.map((remark) => `<p class="dim">${xml(remark)}</p>`).join("") +
    `</body></html>\n`
  );
}
