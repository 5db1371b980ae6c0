/** The front page. */
import { addEnglish } from "..";

export const overview = {
  overview: {
    title: "Cluster",
    slots: "Slots",
    slotsNote: "one row per node, one cell per slot, colour is the experiment, number is the rank",
    running: "Running",
    all: "All experiments",
    allOf: "All {{count}} running",
    recent: "Recently ended",
    idle: "Nothing is running.",
    slotsBusy: "Slots in use",
    nodesOnline: "{{online}} of {{all}} nodes online",
    queued: "Queued trials",
    noneWaiting: "nothing is waiting",
    oldest: "oldest waits {{age}}",
    throughput: "Throughput",
    samples_one: "samples/s from {{count}} trial",
    samples_other: "samples/s from {{count}} trials",
    comm: "Communication share",
    commOver_one: "of step time, {{count}} trial, {{steps}}",
    commOver_other: "of step time, mean of {{count}} trials, {{steps}}",
    steps_one: "{{count}} step",
    steps_other: "{{count}} steps",
    noneReports: "no trial reports it",
    moreAttention_one: "and {{count}} more",
    moreAttention_other: "and {{count}} more",
  },
  attention: {
    label: "Needs attention",
    failed: "{{name}} failed.",
    node: "Node {{name}} is not heard.",
    health: "Node {{name}} is not healthy.",
    version: "Node {{name}} runs another version.",
    wait: "A trial has been queued for more than 30 minutes.",
    diverged: "{{name}} reports a value that is not finite:",
  },
  first: {
    title: "First steps",
    done: "done",
    server: "Start the control plane",
    node: "Add a node",
    nodeHint: "Create a join token and run its command on the machine that shall train.",
    join: "Add a node",
    submit: "Submit an experiment",
    submitHint: "The example trains a small network on handwritten digits with two workers.",
    example: "Open the example",
    watch: "Watch it train: loss, step time, communication",
  },
} as const;

addEnglish(overview);
