/** Hands traces to Perfetto, which draws them in a tab of its own and keeps them in that tab: nothing
 * is sent to its server. https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui */
export const PERFETTO = "https://ui.perfetto.dev";
const PING_MS = 200;
/** For the page to load, and to answer. */
const PATIENCE_MS = 20_000;

export interface Trace {
  title: string;
  fileName: string;
  buffer: ArrayBuffer;
}

/** To be called in a click: a browser opens a tab for nothing else. Rejects when it opens none
 * ("blocked"), when Perfetto does not answer ("silent"), or as `load` does. */
export async function openInPerfetto(load: () => Promise<Trace>, patienceMs = PATIENCE_MS): Promise<void> {
  const tab = window.open(PERFETTO);
  if (!tab) throw new PerfettoError("blocked");
  const [trace] = await Promise.all([load(), answered(tab, patienceMs)]);
  tab.postMessage({ perfetto: trace }, PERFETTO);
}

export class PerfettoError extends Error {
  constructor(readonly kind: "blocked" | "silent") {
    super(kind);
  }
}

/** Its page takes no trace before it has answered a ping, and says nothing by itself. */
function answered(tab: Window, patienceMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const until = Date.now() + patienceMs;
    const stop = () => {
      clearInterval(pinging);
      window.removeEventListener("message", hear);
    };
    const hear = (event: MessageEvent) => {
      if (event.source !== tab || event.origin !== PERFETTO || event.data !== "PONG") return;
      stop();
      resolve();
    };
    const pinging = setInterval(() => {
      if (Date.now() < until) return tab.postMessage("PING", PERFETTO);
      stop();
      reject(new PerfettoError("silent"));
    }, PING_MS);
    window.addEventListener("message", hear);
  });
}
