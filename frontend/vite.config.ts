import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

import { mockServer } from "./dev/mock";

const backend = process.env["MUSTER_URL"] ?? "http://127.0.0.1:8470";

export default defineConfig(({ mode }) => ({
  plugins: [react(), ...(mode === "mock" ? [mockServer()] : [])],
  build: {
    outDir: "../server/muster_server/static",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // nothing inline: the content security policy allows 'self' only
    modulePreload: { polyfill: false },
    sourcemap: false,
    manifest: "manifest.json", // read by scripts/budget.mjs
  },
  server: {
    host: "127.0.0.1",
    port: 5173,
    proxy: mode === "mock" ? undefined : { "/api": { target: backend, ws: true, changeOrigin: true } },
  },
  test: {
    environment: "jsdom",
    setupFiles: ["src/testing/setup.ts"],
    css: false,
    restoreMocks: true,
  },
}));
