/** English, and the list of keys: zh-CN must have the same in each file. */
import { access } from "./access";
import { app } from "./app";
import { cluster } from "./cluster";
import { experiments } from "./experiments";
import { overview } from "./overview";
import { settings } from "./settings";
import { states } from "./states";
import { submit } from "./submit";
import { trials } from "./trials";

export const en = {
  ...app,
  ...access,
  ...states,
  ...overview,
  ...cluster,
  ...experiments,
  ...trials,
  ...submit,
  ...settings,
} as const;
