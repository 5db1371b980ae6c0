/** English of the frame that every page stands in: part of the first download. pages.ts has the rest. */
import { access } from "./access";
import { app } from "./app";
import { states } from "./states";

export const en = { ...app, ...access, ...states } as const;
