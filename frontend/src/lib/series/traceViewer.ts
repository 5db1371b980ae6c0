/** The page that draws a trace with speedscope (public/viewer, scripts/traceViewer.ts): it fetches the trace
 * from this server, as who is signed in, and needs nothing else. A page of its own, under a policy of its own. */
export function viewerAddress(traceUrl: string, title: string): string {
  return `/viewer/open.html?${new URLSearchParams({ trace: traceUrl, title })}`;
}
