// Writes openapi.json from the server's code and src/api/schema.gen.ts from that.
// `npm run api -- --check` writes nothing and fails when either is out of date.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

import openapiTS, { astToString } from "openapi-typescript";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "..");
const check = process.argv.includes("--check");
const venv = path.resolve(root, "../.venv/bin/python");
const python = process.env.PYTHON ?? (existsSync(venv) ? venv : "python3");

const document = execFileSync(python, [path.join(here, "openapi.py")], {
  encoding: "utf8",
  maxBuffer: 64 * 1024 * 1024,
});
const header = "// Made by `npm run api` from the server's OpenAPI description. Do not edit.\n\n";
const types = header + astToString(await openapiTS(JSON.parse(document)));

let stale = false;
for (const [file, text] of [
  ["openapi.json", document],
  ["src/api/schema.gen.ts", types],
]) {
  const target = path.join(root, file);
  if (check) {
    if (readFileSync(target, "utf8") !== text) {
      stale = true;
      process.stderr.write(`${file} is out of date: run npm run api\n`);
    }
  } else {
    writeFileSync(target, text);
  }
}
process.exit(stale ? 1 : 0);
