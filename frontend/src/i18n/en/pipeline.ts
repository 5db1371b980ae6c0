/** The schedule of a pipeline; comes with the performance page of a trial. */
import { addEnglish } from "..";

export const pipeline = {
  pipeline: {
    title: "Schedule of a step",
    forward: "Forward",
    backward: "Backward",
    backward_input: "Backward, gradients of inputs",
    backward_weight: "Backward, gradients of weights",
    message: "Message",
    rank: "Rank",
    part: "Part",
    micro: "Micro-batch",
    from: "From",
    to: "To",
    which: "Pipeline",
    no: "Pipeline {{no}}",
    box: "{{kind}} of micro-batch {{micro}}, stage {{stage}}: {{from}} to {{to}}",
    label: "Step {{step}} of schedule {{schedule}} with {{micros}} micro-batches: workers computed nothing for {{idle}} of it",
    note: "Recorded from step {{step}}, schedule {{schedule}}, {{micros}} micro-batches. In it, workers computed nothing for {{idle}} of the time shown; over {{n}} rows, stages waited for each other for {{measured}} of a step.",
    clocks: "Clocks of the workers were brought together by their messages, to within {{error}}.",
    clocksApart: "Of some workers the clocks could not be compared: their rows may be shifted.",
    leftOut_one: "{{count}} operation more was not kept.",
    leftOut_other: "{{count}} operations more were not kept.",
    none: "No step was recorded. The built-in trainer records one on processors, the first after 4 steps; on CUDA none.",
  },
};

addEnglish(pipeline);
