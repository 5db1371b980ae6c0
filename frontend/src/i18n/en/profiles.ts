/** Windows of the profiler, and what was expected. */
export const profiles = {
  profiles: {
    title: "Profiler",
    note: "Traces of selected ranks and steps, recorded with the PyTorch profiler",
    ranks: "Ranks",
    ranksWrong: "Enter numbers separated by commas, such as 0,1",
    steps: "Steps",
    ask: "Record trace",
    askHint: "Training continues. Traced steps and the one after them take longer.",
    window: "Trace",
    of: "Trace {{no}}, rank {{rank}}",
    node: "Node",
    asked: "Requested",
    size: "Size",
    trace: "View",
    waiting: "recording",
    open: "Open",
    openHint: "Opens the trace in a new tab, in the built-in viewer (speedscope).",
    perfettoHint:
      "Opens the trace in ui.perfetto.dev in a new tab. Needs internet access. The trace does not leave your browser.",
    download: "Download",
    perfetto: {
      blocked: "The browser blocked the new tab. Allow pop-ups for this page, or download the trace.",
      silent:
        "ui.perfetto.dev does not respond. It needs internet access. Open the trace here, or download it " +
        "for another viewer such as chrome://tracing.",
      failed: "The trace could not be loaded.",
    },
  },
  foreseen: {
    title: "Expected and measured",
    note: "The planner's estimates and the measured values, over {{n}} rows",
    what: "Metric",
    memory: "Tensor memory per slot",
    bytes: "Bytes sent per step and worker",
    step: "Step time",
    expected: "Expected",
    measured: "Measured",
    ratio: "Expected / measured",
    details: "Details",
    far: "{{figure}}: expected is {{ratio}} times measured.",
    rss: "On CPU, only whole processes can be measured: {{size}} including interpreter and libraries.",
  },
};
