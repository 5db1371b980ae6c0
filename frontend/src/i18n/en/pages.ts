/** English of the pages: one download, that comes with the first of them. */
import { administration } from "./administration";
import { charts } from "./charts";
import { checkpointList } from "./trial/checkpointList";
import { cluster } from "./cluster";
import { compare } from "./compare";
import { config } from "./trial/config";
import { deployments } from "./deployments";
import { diagnosis } from "./trial/diagnosis";
import { docs } from "./docs";
import { experiments } from "./experiments";
import { goodput } from "./goodput";
import { keys } from "./keys";
import { logs } from "./trial/logs";
import { media } from "./trial/media";
import { models } from "./models";
import { notifications } from "./notifications";
import { outputs } from "./trial/outputs";
import { overview } from "./overview";
import { panels } from "./panels";
import { performance } from "./trial/performance";
import { pipeline } from "./trial/pipeline";
import { planner } from "./planner";
import { profiles } from "./trial/profiles";
import { reports } from "./project/reports";
import { scaling } from "./scaling";
import { search } from "./search";
import { settings } from "./settings";
import { submit } from "./submit";
import { table } from "./table";
import { trials } from "./trial/trials";

export const pages = {
  ...administration,
  ...charts,
  ...checkpointList,
  ...cluster,
  ...compare,
  ...config,
  ...deployments,
  ...diagnosis,
  ...docs,
  ...experiments,
  ...goodput,
  ...keys,
  ...logs,
  ...media,
  ...models,
  ...notifications,
  ...outputs,
  ...overview,
  ...panels,
  ...performance,
  ...pipeline,
  ...planner,
  ...profiles,
  ...reports,
  ...scaling,
  ...search,
  ...settings,
  ...submit,
  ...table,
  ...trials,
} as const;
