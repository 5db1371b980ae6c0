/** The examples that `muster up --demo` runs, as a module: documents, and code as the archives that the server takes. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";

import type { Plugin } from "vite";

const ROOT = path.resolve(import.meta.dirname, "../../examples");
const EXAMPLES = ["digits-ddp", "digits-asha", "plain-torchrun"];
const MODULE = "virtual:demo";
const BLOCK = 512;
const DOCUMENT = "experiment.yaml";

/** A file of a tar archive, in the POSIX format (ustar), readable by everybody and without a time. */
function tarEntry(name: string, content: Buffer): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, "0")}\0`;
  header.write(name, 0);
  header.write(octal(0o644, 7), 100);
  header.write(octal(0, 7), 108);
  header.write(octal(0, 7), 116);
  header.write(octal(content.length, 11), 124);
  header.write(octal(0, 11), 136);
  header.write("        ", 148);
  header.write("0", 156);
  header.write("ustar\u000000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK);
  return Buffer.concat([header, content, padding]);
}

function archive(folder: string): Buffer {
  const names = readdirSync(folder).filter((name) => name.endsWith(".py") || name === DOCUMENT);
  const entries = names.toSorted().map((name) => tarEntry(name, readFileSync(path.join(folder, name))));
  return gzipSync(Buffer.concat([...entries, Buffer.alloc(2 * BLOCK)]));
}

function example(name: string): { document: string; sha256: string | null; code: string | null } {
  const folder = path.join(ROOT, name);
  const document = readFileSync(path.join(folder, DOCUMENT), "utf8");
  if (!/^code:/m.test(document)) return { document, sha256: null, code: null };
  const packed = archive(folder);
  return { document, sha256: createHash("sha256").update(packed).digest("hex"), code: packed.toString("base64") };
}

export function demo(): Plugin {
  return {
    name: "demo",
    resolveId: (id) => (id === MODULE ? `\0${id}` : null),
    load: (id) => (id === `\0${MODULE}` ? `export const examples = ${JSON.stringify(EXAMPLES.map(example))};\n` : null),
  };
}
