/** English of the frame that every page stands in. Texts of pages come with the code that shows them: see late.ts. */
import { access } from "./access";
import { app } from "./app";
import { states } from "./states";

export const en = { ...app, ...access, ...states } as const;
