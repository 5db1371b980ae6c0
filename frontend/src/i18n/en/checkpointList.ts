/** Checkpoints of many trials. */
export const checkpointList = {
  checkpointList: {
    pageHint: "All checkpoints you can resume from, and the storage they use.",
    experiment: "Experiment",
    metric: "Metric at save",
    order: "Order",
    newest: "Newest",
    largest: "Largest",
    everyState: "All states",
    complete: "Complete",
    deleting: "Deleting",
    deleted: "Deleted",
    total: "{{state}}: {{n}}, {{size}}",
    freed: "{{state}}: {{n}}, {{size}} freed",
    noMatch: "No checkpoints in this state",
  },
};
