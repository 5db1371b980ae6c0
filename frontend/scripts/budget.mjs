// Fails when the dashboard got heavier than agreed. Sizes are gzip bytes of the built files.
import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const out = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../server/muster_server/static");
const ENTRY_KB = 250; // scripts and styles needed before the first page is drawn
const CHUNK_KB = 60;
// What most pages share; CodeMirror, loaded on /submit only; ECharts, for searches and figures of plotly only; all
// words of the documentation, loaded when somebody searches for some.
const HEAVY = { "_shared-": 150, "features/submit/editor": 160, "_EChart-": 230, "docs-search/en": 290 };

const manifest = JSON.parse(readFileSync(path.join(out, "manifest.json"), "utf8"));
const gzip = (file) => gzipSync(readFileSync(path.join(out, file))).length / 1024;
// What the first answer of the server names, and what those files import.
const first = new Set(
  [...readFileSync(path.join(out, "index.html"), "utf8").matchAll(/(?:src|href)="\/([^"]+\.(?:js|css))"/g)].map(
    (match) => match[1],
  ),
);
const filesOf = (chunk, seen) => {
  if (!chunk || seen.has(chunk.file)) return;
  seen.add(chunk.file);
  for (const css of chunk.css ?? []) seen.add(css);
  for (const next of chunk.imports ?? []) filesOf(manifest[next], seen);
};
const entry = new Set();
for (const chunk of Object.values(manifest)) if (first.has(chunk.file)) filesOf(chunk, entry);
for (const file of first) entry.add(file);
if (![...entry].some((file) => file.startsWith("assets/") && file.endsWith(".js")))
  throw new Error("index.html names no script");
const total = [...entry].reduce((sum, file) => sum + gzip(file), 0);
let failed = total > ENTRY_KB;
process.stdout.write(`entry ${total.toFixed(1)} KB of ${ENTRY_KB} KB gzip\n`);
for (const [key, chunk] of Object.entries(manifest)) {
  if (!chunk.file.endsWith(".js") || entry.has(chunk.file)) continue;
  const size = gzip(chunk.file);
  const heavy = Object.keys(HEAVY).find((part) => key.includes(part));
  const limit = heavy ? HEAVY[heavy] : CHUNK_KB;
  if (size > limit) failed = true;
  if (size > 8 || size > limit) {
    process.stdout.write(`${chunk.file} ${size.toFixed(1)} KB of ${limit} KB\n`);
  }
}
if (failed) process.stderr.write("over the budget\n");
process.exit(failed ? 1 : 0);
