/** Submitting and forking. */
import { addEnglish } from "..";

export const submit = {
  submit: {
    title: "New experiment",
    button: "Submit",
    template: "Templates",
    templates: {
      ddp: "Data-parallel, two workers",
      asha: "Search with ASHA, 16 trials",
      plain: "One worker",
      script: "Your own script",
    },
    shape: "Show as",
    asCli: "as CLI",
    asCurl: "as curl",
    editor: "Experiment document (YAML)",
    draft: "The draft is kept in this browser. Ctrl Enter submits. Escape, then Tab leaves the editor.",
    documentItself: "document",
    errors_one: "{{count}} problem",
    errors_other: "{{count}} problems",
    fits: "It fits now.",
    waits: "It will wait.",
    plan: "Plan",
    atMost_one: "at most {{count}}",
    atMost_other: "at most {{count}}",
    exactly_one: "{{count}}",
    exactly_other: "{{count}}",
    commands: "What will run",
    onNode_one: "{{node}}, {{count}} slot",
    onNode_other: "{{node}}, {{count}} slots",
    sampled_one: "The first trial",
    sampled_other: "The first {{count}} trials",
    defaults: "with every default",
    rung_one: "at most {{count}} trial trains {{length}}",
    rung_other: "at most {{count}} trials train {{length}}",
  },
  fork: {
    title: "Fork of {{name}}",
    start: "Start from",
    nothing: "Nothing: train from the start",
    latest: "Its latest checkpoint",
    best: "Its best checkpoint",
    checkpoint: "Checkpoint {{id}}",
    load: "Take over",
    all: "Everything: step, optimizer, model",
    weights: "The weights of the model, at step 0",
    overrides: "The overrides it was submitted with apply here too:",
    here: "Fork from here",
  },
} as const;

addEnglish(submit);
