/** What the built dashboard contains of others: a list for its page, and the texts of the licenses as a file. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

import type { Plugin } from "vite";

const ROOT = path.resolve(import.meta.dirname, "..");
const MODULE = "virtual:licenses";
const FILE = "licenses.txt";
/** Tools that leave something of theirs in the build. */
const SHIPPED_TOOLS = ["node_modules/speedscope"];
/** Declared by packages for their types alone. */
const TYPES_ONLY = /^node_modules\/(@types\/|typescript$)/;

interface Locked {
  version: string;
  license?: string;
  integrity?: string;
  dev?: boolean;
  optional?: boolean;
}

interface Package {
  name: string;
  version: string;
  license: string;
  integrity: string;
  folder: string;
}

/** The packages of the lock that are part of the build, by name; one entry for each version. Also read by
 * scripts/sbom.py. */
export function packages(): Package[] {
  const lock = JSON.parse(readFileSync(path.join(ROOT, "package-lock.json"), "utf8")) as {
    packages: Record<string, Locked>;
  };
  const found = Object.entries(lock.packages)
    .filter(([folder, one]) => folder !== "" && (!one.dev || SHIPPED_TOOLS.includes(folder)))
    .filter(([folder, one]) => !one.optional && !TYPES_ONLY.test(folder))
    .map(([folder, { version, license, integrity }]) => {
      const name = folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length);
      if (license === undefined) throw new Error(`${name} ${version} names no license`);
      if (integrity === undefined) throw new Error(`${name} ${version} has no hash in package-lock.json`);
      return { name, version, license, integrity, folder };
    });
  const unique = new Map(found.map((one) => [`${one.name}@${one.version}`, one]));
  return [...unique.values()].toSorted((a, b) => a.name.localeCompare(b.name, "en"));
}

/** The text that a package ships, else the name of its license. */
function textOf({ name, version, license, folder }: Package): string {
  const here = path.join(ROOT, folder);
  const file = existsSync(here)
    ? readdirSync(here)
        .toSorted()
        .find((one) => /^(licen[cs]e|copying)/i.test(one))
    : undefined;
  const text = file ? readFileSync(path.join(here, file), "utf8").trim() : license;
  return `${name} ${version} (${license})\n\n${text}\n`;
}

export function licenses(): Plugin {
  return {
    name: "licenses",
    resolveId: (id) => (id === MODULE ? `\0${id}` : null),
    load(id) {
      if (id !== `\0${MODULE}`) return null;
      const shown = packages().map(({ name, version, license }) => ({ name, version, license }));
      return `export const packages = ${JSON.stringify(shown)};\n`;
    },
    generateBundle() {
      const rule = `\n${"=".repeat(80)}\n\n`;
      this.emitFile({ type: "asset", fileName: FILE, source: packages().map(textOf).join(rule) });
    },
  };
}
