/** The ten settings that most documents have: with the built-in trainer, and with a script. */
import { quotedText, type SettingPath } from "./setting";

export interface FormField {
  id: string;
  path: SettingPath;
  kind: "text" | "number" | "choice";
}

const field = (kind: FormField["kind"], ...path: SettingPath): FormField => ({ id: path.join("."), path, kind });

const ALL = [field("text", "name"), field("text", "project")];
const RESOURCES = [
  field("number", "resources", "slots"),
  field("number", "resources", "nodes"),
  field("choice", "resources", "slot_type"),
];

export const TRAINER_FIELDS: readonly FormField[] = [
  ...ALL,
  field("choice", "trainer", "model"),
  field("choice", "trainer", "data"),
  field("number", "trainer", "epochs"),
  field("number", "trainer", "batch_size"),
  field("number", "trainer", "lr"),
  ...RESOURCES.slice(0, 2),
  field("choice", "strategy", "kind"),
];

export const SCRIPT_FIELDS: readonly FormField[] = [
  ...ALL,
  field("text", "entrypoint"),
  field("choice", "launcher"),
  ...RESOURCES,
  field("text", "resources", "pool"),
  field("number", "restarts", "user"),
  field("number", "stop_grace_s"),
];

/** What was typed as it is written into the document; null: it is no value of such a field. */
export function writtenValue(kind: FormField["kind"], text: string): string | null {
  const value = text.trim();
  if (value === "") return "";
  if (kind !== "number") return quotedText(value);
  return value === "auto" || /^[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$/.test(value) ? value : null;
}
