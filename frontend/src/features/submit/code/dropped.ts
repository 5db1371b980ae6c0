/** The files that were dropped or chosen: a folder, an archive, or single files. */
import { isArchive, unpack, withoutTop } from "./archives";
import { type CodeFile, MAX_BUNDLE_BYTES } from "./files";
import { isNeverSent } from "./ignore";

/** Files of a folder that are looked at; of more, nothing is sent. */
const MAX_SEEN = 100_000;

export class TooMuch extends Error {}

export interface Dropped {
  /** What it was called. */
  name: string;
  files: CodeFile[];
}

/** The entries of a drop; they can be asked for only while the event is handled. */
export const entriesOf = (transfer: DataTransfer): FileSystemEntry[] =>
  [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);

export async function readEntries(entries: readonly FileSystemEntry[]): Promise<Dropped> {
  const [first] = entries;
  if (entries.length === 1 && first?.isFile) {
    const file = await fileOf(first as FileSystemFileEntry);
    return fromFile(file);
  }
  const files: CodeFile[] = [];
  if (entries.length === 1 && first) await walk(first, "", files);
  else for (const entry of entries) await add(entry, "", files);
  return { name: entries.map((entry) => entry.name).join(", "), files };
}

const fileOf = (entry: FileSystemFileEntry): Promise<File> =>
  new Promise((resolve, reject) => entry.file(resolve, reject));

async function add(entry: FileSystemEntry, base: string, files: CodeFile[]): Promise<void> {
  const path = base + entry.name;
  if (entry.isDirectory) {
    if (!isNeverSent(path)) await walk(entry, `${path}/`, files);
  } else {
    if (files.length >= MAX_SEEN) throw new TooMuch(entry.name);
    files.push({ name: path, data: await fileOf(entry as FileSystemFileEntry) });
  }
}

async function walk(folder: FileSystemEntry, base: string, files: CodeFile[]): Promise<void> {
  const reader = (folder as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A reader gives some hundred entries at a time, and none at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const entry of some) await add(entry, base, files);
  }
}

/** A folder or an archive from a file dialog. */
export async function readChosen(list: readonly File[]): Promise<Dropped> {
  const [first] = list;
  if (list.length === 1 && first && first.webkitRelativePath === "") return fromFile(first);
  if (list.length > MAX_SEEN) throw new TooMuch(first?.webkitRelativePath ?? "");
  const top = first?.webkitRelativePath.split("/")[0] ?? "";
  const files = list.map((file) => ({ name: file.webkitRelativePath.slice(top.length + 1) || file.name, data: file }));
  return { name: top || list.map((file) => file.name).join(", "), files };
}

async function fromFile(file: File): Promise<Dropped> {
  if (!isArchive(file.name)) return { name: file.name, files: [{ name: file.name, data: file }] };
  if (file.size > MAX_BUNDLE_BYTES) throw new TooMuch(file.name);
  return { name: file.name, files: withoutTop(await unpack(file)) };
}
