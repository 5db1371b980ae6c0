import { useRef, useState } from "react";

import { client, unwrap } from "../../../api/client";
import type { Dropped } from "./dropped";
import {
  bytesOf,
  type CodeFile,
  type FolderContents,
  MAX_BUNDLE_BYTES,
  MAX_FILES,
  MAX_FOLDER_BYTES,
  MAX_LEFT_OUT,
  MAX_PATH_CHARS,
} from "./files";
import { chosenFiles } from "./ignore";
import { pack, type Packed } from "./tar";

/** Why a folder cannot be sent. */
export type Refusal = "empty" | "files" | "bytes" | "path";

export interface Code extends FolderContents {
  name: string;
  /** Null: it was not sent yet. */
  sha256: string | null;
  packed: Packed | null;
  refusal: Refusal | null;
  /** Names for the server, so that a job that misses one can say why. */
  leftOutNames: string[];
}

const refusalOf = (files: readonly CodeFile[]): Refusal | null => {
  if (files.length === 0) return "empty";
  if (files.length > MAX_FILES) return "files";
  if (bytesOf(files) > MAX_FOLDER_BYTES) return "bytes";
  return files.some(({ name }) => name.length > MAX_PATH_CHARS) ? "path" : null;
};

/** The bundle of what was chosen, or why there can be none. */
export async function codeOf({ name, files: all }: Dropped): Promise<Code> {
  const contents = await chosenFiles(all);
  const refusal = refusalOf(contents.files);
  const packed = refusal === null ? await pack(contents.files, MAX_BUNDLE_BYTES) : null;
  return {
    ...contents,
    name,
    sha256: null,
    packed,
    refusal: refusal ?? (packed === null ? "bytes" : null),
    leftOutNames: contents.leftOut.slice(0, MAX_LEFT_OUT).map((entry) => entry.name),
  };
}

/** Sends a bundle; one that the server has stays as it is. */
async function send({ sha256, body }: Packed): Promise<void> {
  const params = { path: { sha256 } };
  await unwrap(
    client.PUT("/api/v1/blobs/{sha256}", {
      params,
      body: body as never,
      bodySerializer: (whole: unknown) => whole as BodyInit,
      headers: { "content-type": "application/gzip" },
    }),
  );
}

/** The code of the experiment that is written: what was chosen, and whether the server has it. */
export function useCode() {
  const [code, setCode] = useState<Code | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  // What is chosen while something is read or sent goes before it.
  const turn = useRef(0);
  const run = async (work: (isCurrent: () => boolean) => Promise<void>): Promise<void> => {
    turn.current += 1;
    const mine = turn.current;
    setBusy(true);
    setError(null);
    try {
      await work(() => turn.current === mine);
    } catch (problem) {
      if (turn.current === mine) setError(problem instanceof Error ? problem : new Error(String(problem)));
    } finally {
      if (turn.current === mine) setBusy(false);
    }
  };
  const upload = (ready: Code): Promise<void> =>
    run(async (isCurrent) => {
      if (!ready.packed) return;
      await send(ready.packed);
      if (isCurrent()) setCode({ ...ready, sha256: ready.packed.sha256 });
    });
  const choose = (read: () => Promise<Dropped>): Promise<void> =>
    run(async (isCurrent) => {
      const next = await codeOf(await read());
      if (isCurrent()) setCode(next);
    });
  /** Known code, of an example, which needs nobody's consent. */
  const take = (files: CodeFile[], name: string): Promise<void> =>
    run(async (isCurrent) => {
      const next = await codeOf({ name, files });
      if (!next.packed || !isCurrent()) return;
      await send(next.packed);
      if (isCurrent()) setCode({ ...next, sha256: next.packed.sha256 });
    });
  const clear = (): void => {
    turn.current += 1;
    setBusy(false);
    setError(null);
    setCode(null);
  };
  return { code, isBusy, error, choose, take, upload, clear };
}

export type CodeState = ReturnType<typeof useCode>;
