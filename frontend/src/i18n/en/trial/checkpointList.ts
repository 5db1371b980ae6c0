/** Checkpoints of many trials. */
export const checkpointList = {
  checkpointList: {
    pageHint: "All checkpoints you can resume from, and the storage they use.",
    experiment: "Experiment",
    metric: "Metric at save",
    marks: "Marks",
    actions: "Actions for the checkpoint at step {{step}}",
    order: "Order",
    newest: "Newest",
    largest: "Largest",
    complete: "Complete",
    local: "Local",
    localOn: "Local, on {{node}}",
    deleting: "Deleting",
    deleted: "Deleted",
    total: "{{state}}: {{n}}, {{size}}",
    freed: "{{state}}: {{n}}, {{size}} freed",
    noMatch: "No checkpoints in this state",
  },
};
