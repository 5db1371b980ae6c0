/** What the pages read: one factory per resource. Keys begin with the resource, so that a live hint
 * can refresh a family (["trial", 57] covers its workers, checkpoints and events). */
export * from "./account";
export * from "./checkpoints";
export * from "./cluster";
export * from "./deployments";
export * from "./experiments";
export * from "./goodput";
export * from "./media";
export * from "./models";
export * from "./outputs";
export * from "./panels";
export * from "./notifications";
export { PAGE } from "./pages";
export * from "./reports";
export * from "./schedules";
export * from "./sessions";
export * from "./trials";
