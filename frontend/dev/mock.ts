import type { Plugin } from "vite";
export const mockServer = (): Plugin => ({ name: "mock" });
