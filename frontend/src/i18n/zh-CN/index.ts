import type { en } from "../en";
import type { pages } from "../en/pages";
import type { Same } from "../same";
import { access } from "./access";
import { administration } from "./administration";
import { app } from "./app";
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
import { planner } from "./planner";
import { pipeline } from "./trial/pipeline";
import { profiles } from "./trial/profiles";
import { reports } from "./project/reports";
import { scaling } from "./scaling";
import { search } from "./search";
import { settings } from "./settings";
import { states } from "./states";
import { submit } from "./submit";
import { table } from "./table";
import { trials } from "./trial/trials";

export const zhCN: Same<typeof en & typeof pages> = {
  ...app,
  ...access,
  ...administration,
  ...states,
  ...logs,
  ...media,
  ...models,
  ...notifications,
  ...outputs,
  ...overview,
  ...panels,
  ...cluster,
  ...experiments,
  ...trials,
  ...charts,
  ...checkpointList,
  ...compare,
  ...config,
  ...deployments,
  ...diagnosis,
  ...docs,
  ...goodput,
  ...keys,
  ...performance,
  ...planner,
  ...pipeline,
  ...profiles,
  ...reports,
  ...scaling,
  ...search,
  ...submit,
  ...table,
  ...settings,
};
