/** Windows of the profiler, and what was expected; come with the page of a trial. */
import { addEnglish } from "..";

export const profiles = {
  profiles: {
    title: "Profiler",
    note: "traces of chosen ranks for some steps, with torch's profiler",
    ranks: "Ranks",
    ranksWrong: "Numbers, such as 0,1",
    steps: "Steps",
    ask: "Trace the next steps",
    askHint: "The training goes on. The steps that are traced take longer, and so does the one after them.",
    window: "Window",
    of: "Window {{no}}, rank {{rank}}",
    node: "Node",
    asked: "Asked",
    size: "Size",
    trace: "Trace",
    waiting: "being traced",
    open: "Open",
    openHint: "Draws the trace in a tab, with the viewer that comes with this dashboard (speedscope).",
    perfettoHint: "Opens ui.perfetto.dev in a tab, which takes the internet, and hands it the trace. The trace stays in your browser.",
    download: "Download",
    perfetto: {
      blocked: "The browser opened no tab. Allow this page to, or download the trace.",
      silent: "ui.perfetto.dev does not answer: it takes the internet. Open the trace here, or download it for a viewer you have, such as chrome://tracing.",
      failed: "The trace cannot be fetched.",
    },
  },
  foreseen: {
    title: "Expected and measured",
    note: "the planner's figures for its document beside its own, over {{n}} rows",
    what: "Figure",
    memory: "Memory of tensors in a slot",
    bytes: "Sent per step and worker",
    step: "Time of a step",
    expected: "Expected",
    measured: "Measured",
    ratio: "Expected / measured",
    details: "Details",
    far: "{{figure}}: the expected value is {{ratio}} times the measured one.",
    rss: "On processors only whole processes are measured: {{size}} with interpreter and libraries.",
  },
};

addEnglish(profiles);
