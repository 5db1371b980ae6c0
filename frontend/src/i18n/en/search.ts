/** What the results of a search say; comes with their charts. */
import { addEnglish } from "..";

export const search = {
  objectives: {
    title: "Objectives",
    note_one: "{{count}} trial of {{all}} that no other one beats in all of them",
    note_other: "{{count}} trials of {{all}} that no other one beats in all of them",
    label: "{{y}} against {{x}}, {{count}} trials",
    key: "Each dot is a trial's last values, faint where another trial beats it; the line joins the others.",
    across: "Across",
    up: "Up",
    none: "No trial has ended with a value of every objective.",
    table: "Trials that are not beaten",
  },
  maps: {
    title: "Two hyperparameters",
    when: "When trials ran",
    timeline: "Trials over time",
    timelineLabel: "{{count}} trials in {{lanes}} lanes over {{duration}}",
    lanes_one: "{{count}} lane: so many ran at once",
    lanes_other: "{{count}} lanes: so many ran at once",
    latest: "the latest {{count}} of {{all}} trials",
    start: "Started after",
    seconds: "Ran for",
    bar: "Trial {{no}}: {{state}}, {{duration}}",
    contour: "Best {{metric}}",
    contourLabel: "Best {{metric}} over {{x}} and {{y}}, from {{low}} to {{high}}",
    trials_one: "{{count}} trial",
    trials_other: "{{count}} trials",
    best: "best",
    worst: "worst",
    field_one: "{{x}}, {{y}}: {{value}}, {{count}} trial",
    field_other: "{{x}}, {{y}}: {{value}}, {{count}} trials",
    rungCut: "Rungs show their best {{shown}} trials; {{count}} came to the fullest.",
  },
  population: {
    schedule: "How the best trial came about",
    scheduleNote_one: "{{count}} trial, one after the other",
    scheduleNote_other: "{{count}} trials, each a clone of the one before",
    clones_one: "{{count}} clone",
    clones_other: "{{count}} clones",
    generation: "Generation",
    noClone: "The best trial is no clone: it has had the same hyperparameters from its beginning.",
  },
};

addEnglish(search);
