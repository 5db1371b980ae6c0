/** A folder as one tar.gz that is the same for the same content, and its SHA-256. */
import type { CodeFile } from "./files";
import { Sha256 } from "./sha256";

const BLOCK = 512;
const encoder = new TextEncoder();

function header(name: Uint8Array, size: number, mode: number, kind: "0" | "L"): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const text = (at: number, value: string): void => block.set(encoder.encode(value), at);
  const octal = (at: number, length: number, value: number): void =>
    text(at, `${value.toString(8).padStart(length - 1, "0")}\0`);
  block.set(name.subarray(0, 100), 0);
  octal(100, 8, mode);
  octal(108, 8, 0);
  octal(116, 8, 0);
  octal(124, 12, size);
  octal(136, 12, 0);
  text(148, "        ");
  text(156, kind);
  text(257, "ustar  \0");
  const sum = block.reduce((total, byte) => total + byte, 0);
  text(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return block;
}

const padding = (size: number): Uint8Array => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);

/** The bytes of the archive, file by file. */
async function* tarBytes(files: readonly CodeFile[]): AsyncGenerator<Uint8Array> {
  for (const file of files.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = encoder.encode(file.name);
    if (name.length > 100) {
      // GNU's way to say a long name: an entry of its own in front.
      const long = new Uint8Array([...name, 0]);
      yield header(encoder.encode("././@LongLink"), long.length, 0o644, "L");
      yield long;
      yield padding(long.length);
    }
    const data = new Uint8Array(await file.data.arrayBuffer());
    yield header(name, data.length, file.isExecutable ? 0o755 : 0o644, "0");
    yield data;
    yield padding(data.length);
  }
  yield new Uint8Array(2 * BLOCK);
}

export interface Packed {
  body: Blob;
  sha256: string;
}

/** Packs the files, and gives up once the archive has more than `maxBytes`; null then. */
export async function pack(files: readonly CodeFile[], maxBytes: number): Promise<Packed | null> {
  const source = tarBytes(files);
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const next = await source.next();
      if (next.done) controller.close();
      else controller.enqueue(next.value as Uint8Array<ArrayBuffer>);
    },
  });
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  const digest = new Sha256();
  let size = 0;
  const reader = stream.pipeThrough(new CompressionStream("gzip")).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > maxBytes) {
      await reader.cancel();
      return null;
    }
    digest.update(value);
    pieces.push(value);
  }
  return { body: new Blob(pieces), sha256: digest.hex() };
}
