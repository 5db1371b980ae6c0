/** Where this server is: its pages and routes may be below a path, which the server writes into index.html. */
const written = typeof document === "undefined" ? null : document.querySelector<HTMLMetaElement>("meta[name=base]");

/** The path of MUSTER_PUBLIC_URL: "/muster"; "" without one. */
export const BASE = written?.content.replace(/\/$/, "") ?? "";

/** The address of a page, route or file, "/docs/contents", for all that the router does not see. */
export const url = (path: string): string => BASE + path;

/** The address of this server, for programs. */
export const SERVER = typeof location === "undefined" ? "http://localhost" : location.origin + BASE;
