/** Texts that come with the code of their pages, not with the first page. Only for types and tests. */
import type { charts } from "./charts";
import type { compare } from "./compare";
import type { keys } from "./keys";

export type Late = typeof charts & typeof compare & typeof keys;
