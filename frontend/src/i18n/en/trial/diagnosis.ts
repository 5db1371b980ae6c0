/** What a trial is bound by. */
export const diagnosis = {
  diagnosis: {
    run: "Diagnose",
    again: "Diagnose again",
    title: "Diagnosis of {{name}}",
    what:
      "Finds out whether computation, communication, data loading or a slow rank limits the step time. " +
      "Short probe runs leave out one thing at a time, on as many slots as this trial has. The trial " +
      "itself is not affected.",
    observedWhat:
      "Parts of your own script cannot be left out, so the diagnosis uses the trial's measurements and is immediate.",
    none: "Not diagnosed yet",
    cancel: "Cancel…",
    ask: {
      title: "Cancel diagnosis {{id}}?",
      action: "Cancel diagnosis",
      dismiss: "Keep running",
      lost_one:
        "The diagnosis ends without a result: {{done}} of {{count}} probe has ended, and all of them are needed.",
      lost_other:
        "The diagnosis ends without a result: {{done}} of {{count}} probes have ended, and all of them are needed. " +
        "The one in progress is killed.",
      kept: "The trial itself is not affected. Another diagnosis runs all probes again.",
    },
    by: "by {{who}}",
    earlier: "Earlier diagnoses",
    state: { running: "running", complete: "complete", canceled: "canceled" },
    running: "{{done}} of {{all}} probes done",
    waits: "The next probe is waiting: {{reason}}",
    now: "Now: {{probe}}",
    canceled: "The diagnosis was canceled before it had a result.",
    verdict: {
      compute: "Bound by computation",
      communication: "Largest avoidable cost: communication",
      data: "Largest avoidable cost: data loading",
      straggler: "Largest avoidable cost: waiting for rank {{rank}}",
      inconclusive: "Inconclusive",
    },
    most: {
      communication: "Bound by communication",
      data: "Bound by data loading",
      straggler: "Bound by waiting for rank {{rank}}",
    },
    costs: "{{share}} of the step ({{low}} to {{high}}, n={{n}})",
    nothingElse: "Nothing else takes 10% of the step or more.",
    late: "Largest difference to the other ranks: {{part}}.",
    observed:
      "Based on the trial's own measurements. Parts of your own script cannot be left out to measure their cost, so no gain is predicted.",
    shares: "Share of the step",
    sharesNote: "95% intervals, Student's t",
    share: {
      communication: "Communication",
      data: "Data loading",
      straggler: "Straggler",
      compute: "Computation",
      name: "Part",
      value: "Share",
      interval: "95% interval",
      n: "n",
    },
    efficiency:
      "A single worker needs {{share}} of the step time ({{low}} to {{high}}, n={{n}}). 100% is perfect scaling.",
    advice: "Recommendations",
    noAdvice: "No recommendations.",
    gain: "predicted {{value}} samples/s ({{low}} to {{high}}, n={{n}})",
    bound: "at most {{value}} samples/s ({{low}} to {{high}}, n={{n}})",
    launch: "Launch",
    launched: "Experiment {{id}}",
    achieved: "achieved {{value}} (median of {{n}} rows)",
    notYet: "not enough steps yet",
    gone: "deleted",
    text: {
      accumulate:
        "Accumulate {{accumulate}} micro-batches per optimizer step. The global batch grows {{factor}}-fold, so adjust the learning rate.",
      bucket: "Send gradients in buckets of {{mb}} MB.",
      prefetch: "Prefetch {{prefetch}} batches during computation.",
      faster_data: "Speed up data loading: more loader processes, a faster disk, or less work per sample.",
      avoid_node:
        "Run without {{node}}, which hosts rank {{rank}}. This needs slots on another node as fast as the rest.",
      fix_rank:
        "Find out why rank {{rank}} is slower: another program on its node, its share of the data, or its device.",
      less_sync:
        "Reduce communication: more gradient accumulation, a larger batch per slot, compression, or a faster network.",
      compute:
        "Reduce computation per sample (strategy.precision: bf16 or a smaller model), or add workers: communication leaves room for them.",
    },
    evidence: "Evidence",
    evidenceNote: "Step time of the slowest rank; repeats differ by {{spread}}",
    probe: {
      name: "Probe",
      step: "Step",
      differs: "vs. baseline",
      trials: "Trials",
      as_is: "Baseline",
      no_sync: "No synchronization",
      synthetic: "Synthetic data",
      alone: "Single worker",
      bucket: "Buckets of {{mb}} MB",
    },
    leftOut: "Not possible here",
  },
};
