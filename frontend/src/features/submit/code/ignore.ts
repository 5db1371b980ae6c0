/** Which files of a folder are sent: the rules of .gitignore, as the command line applies them. Pure. */
import type { CodeFile, FolderContents, LeftOut } from "./files";

/** The same as ALWAYS_LEFT_OUT and EDITOR_LOCKS of the command line; a test of the whole project compares them. */
const ALWAYS = [
  ".git",
  ".hg/",
  ".svn/",
  "__pycache__/",
  "*.pyc",
  ".venv/",
  "venv/",
  "node_modules/",
  ".mypy_cache/",
  ".ruff_cache/",
  ".pytest_cache/",
  ".ipynb_checkpoints/",
  ".muster/",
  ".DS_Store",
  ".#*",
  ".*.sw[a-p]",
  ".~lock.*#",
];

interface Rule {
  test: RegExp;
  isNegated: boolean;
  onlyFolders: boolean;
}

/** The parts of a pattern between slashes as a regular expression over a relative path. */
function expression(pattern: string, isAnchored: boolean): RegExp {
  const parts = pattern.split("/");
  const body = parts
    .map((part, i) => {
      if (part === "**") return i === parts.length - 1 ? ".+" : "(?:.+/)?";
      const text = glob(part);
      return i === parts.length - 1 ? text : `${text}/`;
    })
    .join("");
  return new RegExp(`^${isAnchored ? "" : "(?:.*/)?"}${body}$`, "s");
}

function glob(part: string): string {
  let out = "";
  for (let i = 0; i < part.length; i += 1) {
    const char = part[i] ?? "";
    if (char === "\\" && i + 1 < part.length) {
      i += 1;
      out += escaped(part[i] ?? "");
    } else if (char === "*") out += "[^/]*";
    else if (char === "?") out += "[^/]";
    else if (char === "[") {
      const end = part.indexOf("]", i + (/^[!^]?\]/.test(part.slice(i + 1)) ? 2 : 1) + 1);
      if (end < 0) out += "\\[";
      else {
        const set = part
          .slice(i + 1, end)
          .replace(/^[!^]/, "^")
          .replaceAll("\\", "\\\\")
          .replaceAll("[", "\\[");
        out += `(?!/)[${set}]`;
        i = end;
      }
    } else out += escaped(char);
  }
  return out;
}

const escaped = (char: string): string => char.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

function readRule(line: string): Rule | null {
  let pattern = line.replace(/\r$/, "");
  // Blanks at the end count only behind a backslash.
  while (/\s$/.test(pattern) && !/\\\s$/.test(pattern)) pattern = pattern.slice(0, -1);
  if (pattern === "" || pattern.startsWith("#")) return null;
  const isNegated = pattern.startsWith("!");
  if (isNegated) pattern = pattern.slice(1);
  const onlyFolders = pattern.endsWith("/");
  if (onlyFolders) pattern = pattern.slice(0, -1);
  const isAnchored = pattern.includes("/");
  pattern = pattern.replace(/^\//, "");
  if (pattern === "" || pattern.split("/").every((part) => part === "")) return null;
  try {
    return { test: expression(pattern, isAnchored), isNegated, onlyFolders };
  } catch {
    return null; // no pattern that could match anything, such as a range that runs backwards
  }
}

export const readRules = (text: string): Rule[] => text.split("\n").flatMap((line) => readRule(line) ?? []);

/** Whether the rules leave it out; null: they do not mention it. The last one that does decides. */
function verdict(rules: readonly Rule[], path: string, isFolder: boolean): boolean | null {
  for (const rule of rules.toReversed())
    if ((isFolder || !rule.onlyFolders) && rule.test.test(path)) return !rule.isNegated;
  return null;
}

interface Scope {
  /** The folder from which the rules count, "" or with a slash at its end. */
  base: string;
  rules: Rule[];
}

const ALL: Scope = { base: "", rules: readRules(ALWAYS.join("\n")) };

/** A folder of the tree that the names of the files make. */
interface Folder {
  files: Map<string, CodeFile>;
  folders: Map<string, Folder>;
}

function treeOf(files: readonly CodeFile[]): Folder {
  const root: Folder = { files: new Map(), folders: new Map() };
  for (const file of files) {
    const parts = file.name.split("/");
    const name = parts.pop() ?? "";
    let at = root;
    for (const part of parts) {
      const next = at.folders.get(part) ?? { files: new Map(), folders: new Map() };
      at.folders.set(part, next);
      at = next;
    }
    at.files.set(name, file);
  }
  return root;
}

const sorted = <T>(map: ReadonlyMap<string, T>): [string, T][] =>
  [...map].toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));

function* below(folder: Folder): Generator<CodeFile> {
  for (const [, file] of sorted(folder.files)) yield file;
  for (const [, inner] of sorted(folder.folders)) yield* below(inner);
}

const isVirtualEnvironment = (folder: Folder): boolean =>
  folder.files.has("pyvenv.cfg") || folder.folders.has("conda-meta");

/** Whether a folder is never sent, so that nobody has to look into it. */
export const isNeverSent = (path: string): boolean => verdict(ALL.rules, path, true) === true;

/** What of all files below a folder is sent. */
export async function chosenFiles(all: readonly CodeFile[]): Promise<FolderContents> {
  const files: CodeFile[] = [];
  const leftOut: LeftOut[] = [];
  const decide = (scopes: readonly Scope[], path: string, isFolder: boolean): Scope | null => {
    for (const scope of scopes.toReversed()) {
      const found = verdict(scope.rules, path.slice(scope.base.length), isFolder);
      if (found !== null) return found ? scope : null;
    }
    return null;
  };
  const note = (name: string, inside: CodeFile[]): void => {
    if (inside.length === 0) return;
    leftOut.push({ name, numFiles: inside.length, bytes: inside.reduce((sum, { data }) => sum + data.size, 0) });
  };
  const walk = async (folder: Folder, base: string, outer: readonly Scope[]): Promise<void> => {
    const own = folder.files.get(".musterignore") ?? folder.files.get(".gitignore");
    const scopes = own ? [...outer, { base, rules: readRules(await own.data.text()) }] : outer;
    for (const [name, file] of sorted(folder.files)) {
      const by = decide(scopes, base + name, false);
      if (by === ALL) continue;
      if (by) note(base + name, [file]);
      else files.push(file);
    }
    for (const [name, inner] of sorted(folder.folders)) {
      const by = decide(scopes, base + name, true);
      if (by === ALL) continue;
      if (by || isVirtualEnvironment(inner)) note(`${base}${name}/`, [...below(inner)]);
      else await walk(inner, `${base}${name}/`, scopes);
    }
  };
  await walk(treeOf(all), "", [ALL]);
  return { files, leftOut: leftOut.toSorted((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1)) };
}
