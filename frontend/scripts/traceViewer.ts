import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

import type { Plugin } from "vite";

/** Where the built viewer lies beside the dashboard; the server sends it under a policy of its own. */
const FOLDER = "viewer";
/** Of the package: a sample profile, and readers of formats that no trace of ours has. */
const LEFT_OUT = /\.(txt|wasm|json)$/;

/** speedscope's own build, put beside ours: it draws a trace in the browser, without the internet. */
export function traceViewer(): Plugin {
  return {
    name: "trace-viewer",
    apply: "build",
    generateBundle() {
      const root = path.dirname(createRequire(import.meta.url).resolve("speedscope/package.json"));
      const release = path.join(root, "dist/release");
      const files = readdirSync(release).filter((name) => !LEFT_OUT.test(name));
      for (const name of files)
        this.emitFile({ type: "asset", fileName: `${FOLDER}/${name}`, source: readFileSync(path.join(release, name)) });
      this.emitFile({ type: "asset", fileName: `${FOLDER}/LICENSE`, source: readFileSync(path.join(root, "LICENSE")) });
    },
  };
}
