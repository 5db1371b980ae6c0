/** Checkpoints of many trials; comes with their page. */
import { addEnglish } from "..";

export const checkpointList = {
  checkpointList: {
    pageHint: "What can be gone on from, of all trials, and the storage that it takes.",
    experiment: "Experiment",
    metric: "Metric then",
    order: "Order",
    newest: "Newest",
    largest: "Largest",
    everyState: "Every state",
    complete: "Complete",
    deleting: "Being deleted",
    deleted: "Deleted",
    total: "{{state}}: {{n}}, {{size}}",
    freed: "{{state}}: {{n}}, {{size}} freed",
    noMatch: "No checkpoint is in this state.",
  },
};

addEnglish(checkpointList);
