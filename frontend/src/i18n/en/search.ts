/** What the results of a search say; comes with their charts. */
import { addEnglish } from "..";

export const search = {
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
