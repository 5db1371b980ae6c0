/** The schedule of a pipeline; comes with the performance page of a trial. */
import { addEnglish } from "..";

export const pipeline = {
  pipeline: {
    title: "Schedule of a step",
    forward: "Forward",
    backward: "Backward",
    part: "Part",
    micro: "Micro-batch",
    from: "From",
    to: "To",
    worker: "Worker {{no}}",
    box: "{{kind}} of micro-batch {{micro}}, stage {{stage}}: {{from}} to {{to}}",
    label: "Schedule {{schedule}} with {{micros}} micro-batches: by the order alone stages would wait {{idle}} of the step; {{measured}} were measured",
    note: "Drawn from the order of {{schedule}} with {{micros}} micro-batches and the mean times of each stage (over {{n}} rows), as if sending took no time; not a recording. Stages would wait {{idle}} of the step then; measured are {{measured}}.",
    notDrawn: "The order of {{schedule}} is not drawn: it computes the gradients of weights apart, which is not measured apart.",
    tooMany: "{{count}} micro-batches are too many to be drawn, or nothing was measured.",
  },
};

addEnglish(pipeline);
