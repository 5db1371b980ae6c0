/** Starting points that run as they are: the examples, put in when the dashboard is built. */
import type { CodeFile } from "./code/files";

const documents = import.meta.glob<string>(
  ["../../../../examples/*/experiment.yaml", "../../../../examples/documents/*.yaml"],
  { query: "?raw", import: "default", eager: true },
);
const scripts = import.meta.glob<string>("../../../../examples/*/*.py", {
  query: "?raw",
  import: "default",
  eager: true,
});

export interface Template {
  id: string;
  document: string;
  /** The code that its entry point needs. */
  files: CodeFile[];
}

/** In the order in which they are offered, by what they show, under titles of their own. */
const GROUPS = {
  first: ["digits-ddp", "one-worker", "shakespeare-gpt"],
  parallel: ["multi-node", "fsdp", "pipeline", "elastic", "resume"],
  search: ["digits-asha", "search-grid", "search-random", "search-bayesian", "search-hyperband", "search-pbt"],
  script: ["own-script", "sdk-script", "plain-torchrun", "deepspeed-zero", "ranks", "reinforcement-learning"],
} as const;

export type TemplateId = (typeof GROUPS)[keyof typeof GROUPS][number];
export const FIRST: TemplateId = "digits-ddp";

/** .../examples/documents/fsdp.yaml → fsdp; .../examples/ranks/experiment.yaml → ranks. */
function idOf(path: string): string {
  const [name = "", folder = ""] = path.split("/").toReversed();
  return name === "experiment.yaml" ? folder : name.replace(/\.yaml$/, "");
}

const encoder = new TextEncoder();

export const TEMPLATES: ReadonlyMap<string, Template> = new Map(
  Object.entries(documents).map(([path, document]) => {
    const folder = path.slice(0, path.lastIndexOf("/") + 1);
    const files = Object.entries(scripts)
      .filter(([script]) => script.startsWith(folder))
      .map(([script, text]) => ({ name: script.slice(folder.length), data: new Blob([encoder.encode(text)]) }));
    return [idOf(path), { id: idOf(path), document, files }];
  }),
);

const listed: ReadonlySet<string> = new Set<string>(Object.values(GROUPS).flat());
/** Searches without a title of their own, which go by the name of their method. */
const others = [...TEMPLATES.keys()].filter((id) => id.startsWith("search-") && !listed.has(id));

/** A template with one section added that it lacks, such as `resources={"slots":1}`. */
export function withSection(document: string, set: string | undefined): string {
  const [, key = "", value = ""] = /^(\w+)=(.+)$/.exec(set ?? "") ?? [];
  const isThere = key === "" || document.split("\n").some((line) => line.startsWith(`${key}:`));
  return isThere ? document : `${document.trimEnd()}\n${key}: ${value}\n`;
}

export const groups = (Object.keys(GROUPS) as (keyof typeof GROUPS)[]).map((id) => ({
  id,
  templates: id === "search" ? [...GROUPS.search, ...others] : GROUPS[id],
}));

export const hasTitle = (id: string): id is TemplateId => listed.has(id);

/** The method of search that a template is about; "" without one. */
export const methodOf = (id: string): string => /\bmethod: *(\w+)/.exec(TEMPLATES.get(id)?.document ?? "")?.[1] ?? "";

export const templateOf = (id: string | undefined): Template | undefined =>
  id === undefined ? undefined : TEMPLATES.get(id);
