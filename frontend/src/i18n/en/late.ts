/** Texts that come with the code of their pages, not with the first page. Only for types and tests. */
import type { charts } from "./charts";

export type Late = typeof charts;
