/**
 * Texts that come with the code that shows them, not with the first page: each file adds its own, and what uses it
 * imports it for that. This list is for types and tests; zh-CN has the same in each file.
 */
import type { charts } from "./charts";
import type { checkpointList } from "./checkpointList";
import type { cluster } from "./cluster";
import type { compare } from "./compare";
import type { diagnosis } from "./diagnosis";
import type { experiments } from "./experiments";
import type { keys } from "./keys";
import type { overview } from "./overview";
import type { pipeline } from "./pipeline";
import type { planner } from "./planner";
import type { profiles } from "./profiles";
import type { scaling } from "./scaling";
import type { search } from "./search";
import type { settings } from "./settings";
import type { submit } from "./submit";
import type { table } from "./table";
import type { trials } from "./trials";

export type Late = typeof charts & typeof checkpointList & typeof cluster & typeof compare & typeof diagnosis & typeof experiments & typeof keys & typeof overview & typeof pipeline & typeof planner & typeof profiles & typeof scaling & typeof search & typeof settings & typeof submit & typeof table & typeof trials;
