import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

import { demo } from "./scripts/demo.ts";
import { documentation } from "./scripts/documentation.ts";
import { licenses } from "./scripts/licenses.ts";
import { traceViewer } from "./scripts/traceViewer.ts";

const backend = process.env["MUSTER_URL"] ?? "http://127.0.0.1:8470";

/** The server checks Origin against its own address, so the proxy speaks in its name. */
const proxy = {
  "/api": { target: backend, ws: true, changeOrigin: true, headers: { origin: backend } },
  "/readyz": { target: backend, changeOrigin: true },
};

export default defineConfig({
  // The server puts the path of its address into index.html. All other files find each other from where they are.
  experimental: { renderBuiltUrl: (_, { hostType }) => (hostType === "html" ? undefined : { relative: true }) },
  plugins: [react(), documentation(), demo(), licenses(), traceViewer()],
  build: {
    outDir: "../server/muster_server/static",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // nothing inline: the content security policy allows 'self' only
    modulePreload: { polyfill: false },
    sourcemap: false,
    manifest: "manifest.json", // read by scripts/budget.mjs
    chunkSizeWarningLimit: 1000, // KB before gzip; scripts/budget.mjs has the limits that count
    rolldownOptions: {
      output: {
        codeSplitting: {
          // All that every page needs is one file; by itself it came to forty, each a request.
          groups: [
            { name: "app", tags: ["$initial"], priority: 1 },
            // So did what several pages share. One file: of several, some would import each other in a circle.
            {
              name: "shared",
              test: /^(?!.*(echart|zrender|codemirror|lezer|common\/goodput|common\/media|features\/reports))/i,
              minShareCount: 2,
            },
          ],
        },
      },
    },
  },
  server: {
    host: "127.0.0.1",
    port: 5173,
    fs: { allow: [".."] }, // the documentation with its pictures, and the examples: templates of the submit page
    proxy,
  },
  preview: {
    host: "127.0.0.1",
    port: 4173,
    proxy,
    // The policy that the server sends, to see that nothing on the pages needs more.
    headers: {
      "Content-Security-Policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    },
  },
  test: {
    environment: "jsdom",
    testTimeout: 30_000, // ms; other checks run beside it
    isolate: false, // a document for each of 85 files took five sixths of the time
    setupFiles: ["src/testing/setup.ts"],
    css: false,
    restoreMocks: true,
  },
});
