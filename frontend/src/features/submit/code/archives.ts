/** The files of an archive that somebody dropped: .zip, .tar and .tar.gz. */
import { type CodeFile, MAX_FOLDER_BYTES } from "./files";

export const isArchive = (name: string): boolean => /\.(zip|tar|tgz|tar\.gz)$/i.test(name);

/** It cannot be read; the message is for a person. */
export class BadArchive extends Error {}

const decoder = new TextDecoder();

/** Without "./" in front; null for what is no file inside of the archive. */
function cleanName(name: string): string | null {
  const parts = name
    .replaceAll("\\", "/")
    .split("/")
    .filter((part) => part !== "." && part !== "");
  return parts.length === 0 || parts.includes("..") || name.startsWith("/") ? null : parts.join("/");
}

export async function unpack(archive: File): Promise<CodeFile[]> {
  if (/\.zip$/i.test(archive.name)) return unzip(archive);
  const isPacked = !/\.tar$/i.test(archive.name);
  const stream = isPacked ? archive.stream().pipeThrough(new DecompressionStream("gzip")) : archive.stream();
  let bytes: Uint8Array;
  try {
    bytes = new Uint8Array(await new Response(stream.pipeThrough(atMost(MAX_FOLDER_BYTES))).arrayBuffer());
  } catch {
    throw new BadArchive(archive.name);
  }
  return untar(bytes, archive.name);
}

/** Breaks off a stream that brings more. */
function atMost(maxBytes: number): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let size = 0;
  return new TransformStream({
    transform(piece, controller) {
      size += piece.length;
      if (size > maxBytes) controller.error(new Error("too large"));
      else controller.enqueue(piece);
    },
  });
}

function untar(bytes: Uint8Array, archive: string): CodeFile[] {
  const files: CodeFile[] = [];
  const text = (from: number, length: number): string =>
    decoder.decode(bytes.subarray(from, from + length)).replace(/\0.*$/s, "");
  let long: string | null = null;
  for (let at = 0; at + 512 <= bytes.length && bytes[at] !== 0;) {
    const size = Number.parseInt(text(at + 124, 12).trim() || "0", 8);
    if (!Number.isFinite(size) || at + 512 + size > bytes.length) throw new BadArchive(archive);
    const kind = String.fromCharCode(bytes[at + 156] ?? 0);
    const body = bytes.slice(at + 512, at + 512 + size);
    const prefix = text(at + 257, 5) === "ustar" && bytes[at + 262] === 0 ? text(at + 345, 155) : "";
    const name = cleanName(long ?? (prefix ? `${prefix}/` : "") + text(at, 100));
    long = null;
    if (kind === "L") long = decoder.decode(body).replace(/\0.*$/s, "");
    else if (kind === "x") long = /^\d+ path=(.*)$/m.exec(decoder.decode(body))?.[1] ?? null;
    else if ((kind === "0" || kind === "\0") && name !== null)
      files.push({
        name,
        data: new Blob([body]),
        isExecutable: (Number.parseInt(text(at + 100, 8).trim() || "0", 8) & 0o100) !== 0,
      });
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}

const END_MARK = 0x06054b50;
const ENTRY_MARK = 0x02014b50;

async function unzip(archive: File): Promise<CodeFile[]> {
  const bytes = new Uint8Array(await archive.arrayBuffer());
  const view = new DataView(bytes.buffer);
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== END_MARK) end -= 1;
  if (end < 0) throw new BadArchive(archive.name);
  const files: CodeFile[] = [];
  let at = view.getUint32(end + 16, true);
  for (let i = view.getUint16(end + 10, true); i > 0; i -= 1) {
    if (at + 46 > bytes.length || view.getUint32(at, true) !== ENTRY_MARK) throw new BadArchive(archive.name);
    const [method, size] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true)];
    const lengths = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    const mode = view.getUint32(at + 38, true) >>> 16;
    const local = view.getUint32(at + 42, true);
    const full = decoder.decode(bytes.subarray(at + 46, at + 46 + (lengths[0] ?? 0)));
    at += 46 + lengths.reduce((sum, length) => sum + length, 0);
    const name = cleanName(full);
    if (full.endsWith("/") || name === null) continue;
    if (local + 30 > bytes.length) throw new BadArchive(archive.name);
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    const packed = bytes.slice(start, start + size);
    if (method !== 0 && method !== 8) throw new BadArchive(archive.name);
    files.push({
      name,
      data: method === 0 ? new Blob([packed]) : await inflated(packed, archive.name),
      isExecutable: (mode & 0o100) !== 0,
    });
  }
  return files;
}

async function inflated(packed: Uint8Array<ArrayBuffer>, archive: string): Promise<Blob> {
  try {
    return await new Response(
      new Blob([packed])
        .stream()
        .pipeThrough(new DecompressionStream("deflate-raw"))
        .pipeThrough(atMost(MAX_FOLDER_BYTES)),
    ).blob();
  } catch {
    throw new BadArchive(archive);
  }
}

/** Without the one folder that everything stands in, as archives of a repository have it. */
export function withoutTop(files: readonly CodeFile[]): CodeFile[] {
  const tops = new Set(files.map(({ name }) => (name.includes("/") ? name.slice(0, name.indexOf("/")) : null)));
  const [top] = [...tops];
  if (tops.size !== 1 || top === null || top === undefined) return [...files];
  return files.map((file) => ({ ...file, name: file.name.slice(top.length + 1) }));
}
