/** Calls a listener at most once per frame, however many of many sources ask for it. */
export function perFrame(listener: () => void): { ask: () => void; end: () => void } {
  let frame: number | null = null;
  return {
    ask: () => {
      frame ??= requestAnimationFrame(() => {
        frame = null;
        listener();
      });
    },
    end: () => {
      if (frame !== null) cancelAnimationFrame(frame);
      frame = null;
    },
  };
}

interface Subscribable {
  subscribe: (listener: () => void) => () => void;
}

/** Subscribes to all of them; however many have something new, the listener is called once per frame. */
export function subscribeAll(all: readonly Subscribable[], listener: () => void): () => void {
  const { ask, end } = perFrame(listener);
  const ends = all.map((one) => one.subscribe(ask));
  return () => {
    end();
    for (const stop of ends) stop();
  };
}
