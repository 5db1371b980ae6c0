/** The files that jobs wrote, and fetching them. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { url } from "../../lib/address";
import { ApiError, byCursor, client, get, type Schemas, unwrap } from "../client";
import { PAGE } from "./pages";

export type OutputFile = Schemas["OutputFileOut"];
export type OutputsSummary = Schemas["OutputsSummaryOut"];
export type OutputSort = "path" | "size" | "modified";

export interface OutputsWanted {
  /** Part of the paths, or a pattern with `*`. */
  text?: string | undefined;
  onlyLeftOut?: boolean;
  sort: OutputSort;
  order: "asc" | "desc";
}

export const outputsSummary = (id: number) =>
  queryOptions({
    queryKey: ["trial", id, "outputs", "summary"],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/outputs/summary", { params: { path: { trial_id: id } }, signal }),
  });

export const outputFiles = (id: number, wanted: OutputsWanted) =>
  infiniteQueryOptions({
    queryKey: ["trial", id, "outputs", "files", wanted],
    queryFn: ({ signal, pageParam }) =>
      get("/api/v1/trials/{trial_id}/outputs", {
        params: {
          path: { trial_id: id },
          query: {
            glob: globOf(wanted.text),
            state: wanted.onlyLeftOut ? ["left_out"] : undefined,
            sort: wanted.sort,
            order: wanted.order,
            limit: PAGE,
            cursor: pageParam,
          },
        },
        signal,
      }),
    ...byCursor,
    placeholderData: keepPreviousData,
  });

/** Text without a wildcard may be anywhere in a path, and its brackets are letters. */
export function globOf(text: string | undefined): string | undefined {
  if (!text) return undefined;
  return text.includes("*") ? text : `*${text.replace(/[[?]/g, "[$&]")}*`;
}

const POLL_MS = 700;

/** Waits until an agent has sent a file. Throws ApiError if it could not. */
export async function whenDone(
  asked: Schemas["ExportOut"],
  signal: AbortSignal,
  onWait: (node: string) => void = () => {},
): Promise<Schemas["ExportOut"]> {
  let found = asked;
  while (found.state === "pending") {
    onWait(found.waits_for);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    signal.throwIfAborted();
    found = await get("/api/v1/exports/{export_id}", { params: { path: { export_id: found.id } } });
  }
  if (found.state === "failed") throw new ApiError(409, "exports.failed", found.message);
  return found;
}

export interface OutputPreviewData {
  url: string;
  /** Null for an image. */
  text: string | null;
}

/** The beginning of a file, to be shown: fetched by an agent, then kept by the server for a while. */
export const outputPreview = (id: number, file: Pick<OutputFile, "path" | "sha256">) =>
  queryOptions({
    queryKey: ["outputPreview", id, file.path, file.sha256],
    queryFn: async ({ signal }): Promise<OutputPreviewData> => {
      const asked = await unwrap(
        client.POST("/api/v1/trials/{trial_id}/outputs:preview", {
          params: { path: { trial_id: id } },
          body: { path: file.path },
        }),
      );
      const { id: exportId } = await whenDone(asked, signal);
      const address = url(`/api/v1/exports/${exportId}/preview`);
      const answer = await client.GET("/api/v1/exports/{export_id}/preview", {
        params: { path: { export_id: exportId } },
        parseAs: "blob",
        signal,
      });
      const blob = (await unwrap(Promise.resolve(answer))) as unknown as Blob;
      return { url: address, text: blob.type.startsWith("text/") ? await blob.text() : null };
    },
    retry: false,
    staleTime: Infinity,
  });
