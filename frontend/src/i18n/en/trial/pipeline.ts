/** The schedule of a pipeline. */
export const pipeline = {
  pipeline: {
    title: "Pipeline schedule",
    forward: "Forward",
    backward: "Backward",
    backward_input: "Backward (input gradients)",
    backward_weight: "Backward (weight gradients)",
    message: "Message",
    rank: "Rank",
    part: "Part",
    micro: "Micro-batch",
    from: "From",
    to: "To",
    which: "Pipeline",
    no: "Pipeline {{no}}",
    box: "{{kind}} of micro-batch {{micro}}, stage {{stage}}: {{from}} to {{to}}",
    label: "Step {{step}}, schedule {{schedule}}, {{micros}} micro-batches: workers were idle for {{idle}} of it",
    note:
      "Step {{step}}, schedule {{schedule}}, {{micros}} micro-batches. Workers were idle for {{idle}} of " +
      "the time shown. Over {{n}} rows, stages waited for each other for {{measured}} of a step.",
    clocks: "Worker clocks are aligned by their messages, to within {{error}}.",
    clocksApart: "The clocks of some workers could not be aligned. Their rows may be shifted.",
    leftOut_one: "{{count}} more operation is not shown.",
    leftOut_other: "{{count}} more operations are not shown.",
    none: "No step recorded. On CPU, the built-in trainer records one, the first after 4 steps. On CUDA it records none.",
  },
};
