/** The comparison of trials; comes with its code. */
import { addEnglish } from "..";

export const compare = {
  compare: {
    title: "Compare",
    sub_one: "{{count}} trial",
    sub_other: "{{count}} trials",
    tabs: { charts: "Charts", config: "Configuration", summary: "Summary" },
    empty: "Nothing to compare yet.",
    emptyHint: "Choose two or more trials here, or tick rows in the list of experiments or in a search's trials.",
    add: "Add a trial",
    addHint: "By the name of its experiment",
    addNone: "No experiment is called like that.",
    addNothing: "No experiment has a trial to compare yet.",
    bestOfSearch: "best trial",
    full: "{{max}} trials are the most that can be told apart; no more are added.",
    gone: "Trial {{id}} is not there.",
    remove: "Remove {{name}}",
    hide: "Hide {{name}}",
    show: "Show {{name}}",
    group: "Group by",
    noGroup: "No groups",
    groupLine: "{{label}} (mean of {{n}})",
    rankHint: "Values of rank 0.",
    noAxis_one: "{{count}} trial reports no such axis ({{x}}) and is not drawn.",
    noAxis_other: "{{count}} trials report no such axis ({{x}}) and are not drawn.",
    noMetrics: "None of them reported metrics yet.",
    key: "Key",
    onlyDiff: "Only what differs",
    same: "They do not differ in anything.",
    sameHint_one: "{{count}} key has the same value in all.",
    sameHint_other: "{{count}} keys have the same value in all.",
    statistic: "Value",
    statistics: { last: "Last", min: "Least", max: "Greatest" },
    metric: "Metric",
    bestHint: "Bold: the best, where less or more of a metric is clearly better.",
  },
} as const;

addEnglish(compare);
