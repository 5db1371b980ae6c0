import { url } from "../address";
/** The page that draws a trace with speedscope (public/viewer, scripts/traceViewer.ts): it fetches the trace
 * from this server, as who is signed in, and needs nothing else. A page of its own, under a policy of its own. */
export function viewerAddress(tracePath: string, title: string): string {
  return url(`/viewer/open.html?${new URLSearchParams({ trace: tracePath, title })}`);
}
