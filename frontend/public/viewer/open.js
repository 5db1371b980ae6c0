// Fetches a trace of torch's profiler as who is signed in, takes out what speedscope cannot read, and
// starts speedscope on the rest: open.html?trace=/api/v1/trials/7/profiles/1/ranks/0/trace&title=…
(async function () {
  const laneOf = (thread, lane) => thread * 10_000 + lane + 1;
  const TRACE = /^\/api\/v1\/trials\/\d+\/profiles\/\d+\/ranks\/\d+\/trace$/;
  const WORDS = {
    en: {
      loading: "Fetching the trace …",
      wrong: "This address names no trace.",
      failed: "The trace cannot be fetched: ",
      empty: "There is nothing in this trace that can be drawn.",
    },
    "zh-CN": {
      loading: "正在取得轨迹…",
      wrong: "此地址不对应任何轨迹。",
      failed: "无法取得轨迹：",
      empty: "该轨迹中没有可以显示的内容。",
    },
  };
  const say = WORDS[document.documentElement.lang] ?? WORDS.en;
  const told = document.getElementById("told");
  const asked = new URLSearchParams(location.search);
  const url = asked.get("trace") ?? "";
  const title = asked.get("title") ?? "";
  if (title) document.title = title;
  if (!TRACE.test(url)) {
    told.textContent = say.wrong;
    return;
  }
  told.textContent = say.loading;
  let events;
  try {
    const reply = await fetch(`..${url}`);
    if (!reply.ok) throw new Error(String(reply.status));
    const text = await new Response(reply.body.pipeThrough(new DecompressionStream("gzip"))).text();
    events = JSON.parse(text).traceEvents;
  } catch (error) {
    told.textContent = say.failed + error.message;
    return;
  }
  // Frames are told apart by name and args: args differ with every call. Spans of the profiler itself
  // have words for process and thread.
  const drawn = events
    .filter(
      (event) =>
        Number.isInteger(event.pid) &&
        Number.isInteger(event.tid) &&
        (event.ph === "X" || event.ph === "B" || event.ph === "E" || event.ph === "M"),
    )
    .map((event) =>
      event.ph === "M"
        ? event
        : {
            ph: event.ph,
            pid: event.pid,
            tid: event.tid,
            ts: event.ts,
            dur: event.dur,
            name: event.name,
            cat: event.cat,
          },
    );
  // A collective that is under way while the thread goes on is no call of it: in lanes of their own, where
  // nothing overlaps, they do not become the callers of all that follows.
  const lanes = new Map();
  const under = drawn
    .filter((event) => event.ph === "X" && /^(gloo|nccl|mpi|ucc):/.test(event.name))
    .toSorted((a, b) => a.ts - b.ts);
  for (const event of under) {
    const key = `${event.pid} ${event.tid}`;
    const ends = lanes.get(key) ?? lanes.set(key, []).get(key);
    let lane = ends.findIndex((end) => end <= event.ts);
    if (lane < 0) {
      lane = ends.length;
      drawn.push({
        ph: "M",
        name: "thread_name",
        pid: event.pid,
        tid: laneOf(event.tid, lane),
        ts: event.ts,
        args: { name: `communication ${lane + 1} of thread ${event.tid}` },
      });
    }
    ends[lane] = event.ts + event.dur;
    event.tid = laneOf(event.tid, lane);
  }
  if (!drawn.some((event) => event.ph !== "M")) {
    told.textContent = say.empty;
    return;
  }
  const blob = new Blob([JSON.stringify({ traceEvents: drawn })], { type: "application/json" });
  try {
    localStorage.setItem(
      "speedscope-color-scheme",
      document.documentElement.getAttribute("data-mantine-color-scheme") === "dark" ? "DARK" : "LIGHT",
    );
  } catch {
    // Storage may be blocked; then it follows the system.
  }
  history.replaceState(
    null,
    "",
    `#profileURL=${encodeURIComponent(URL.createObjectURL(blob))}&title=${encodeURIComponent(title)}`,
  );
  told.remove();
  const parts = await (await fetch("index.html")).text();
  const built = new DOMParser().parseFromString(parts, "text/html");
  for (const link of built.querySelectorAll('link[rel="stylesheet"]')) document.head.append(document.importNode(link));
  const script = document.createElement("script");
  script.src = built.querySelector("script").getAttribute("src");
  document.body.append(script);
})();
