/** The keyboard map; comes with its code. */
import { addEnglish } from "..";

export const keys = {
  keys: {
    title: "Keyboard",
    anywhere: "Anywhere",
    inCharts: "On a chart that has the focus",
    inEditor: "While writing a document",
    palette: "Go to any page, experiment or node",
    map: "This map",
    filter: "To the filter of the page",
    goTo: "Go to {{page}}",
    cursor: "Move the cursor; its values are read out",
    ends: "First and last point",
    pan: "Move the window",
    zoom: "Zoom in and out",
    reset: "Everything again",
    logY: "Log y",
    logX: "Log x",
    smoothing: "Next smoothing",
    full: "Full screen",
    table: "Table or chart",
    submit: "Submit",
    single: "Keys without Ctrl work anywhere",
    singleHint: "Switched off, only those of a focused chart are left.",
  },
} as const;

addEnglish(keys);
