/** What scripts log per step: images, figures, histograms, text, tables, curves, sound and video. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { url } from "../../lib/address";
import { ApiError, client, get, type Schemas, unwrap } from "../client";

export type MediaSeries = Schemas["MediaSeriesOut"];
export type MediaItem = Schemas["MediaItemOut"];
export type MediaOverview = Schemas["MediaOverviewOut"];

/** Most items of one name that are shown at a step. */
export const ITEMS_SHOWN = 24;

/** Names, steps and what was left out. Not with the trial's other queries: it looks at every item, so it is asked for
 * every few seconds and not at each hint. */
export const mediaOverview = (trialId: number, running: boolean) =>
  queryOptions({
    queryKey: ["media", trialId],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/media/series", { params: { path: { trial_id: trialId } }, signal }),
    refetchInterval: running ? 5000 : false,
  });

/** The items of one name at one step. `series.num_items` is part of the key: more may come for the step. */
export const mediaAt = (trialId: number, series: MediaSeries, step: number, rank: number | undefined) =>
  queryOptions({
    queryKey: ["media-items", trialId, series.name, series.kind, step, rank ?? null, series.num_items],
    queryFn: ({ signal }) =>
      get("/api/v1/trials/{trial_id}/media", {
        params: {
          path: { trial_id: trialId },
          query: {
            name: [series.name],
            kind: [series.kind],
            from_step: step,
            to_step: step,
            rank,
            limit: ITEMS_SHOWN,
          },
        },
        signal,
      }),
    placeholderData: keepPreviousData,
    staleTime: Infinity,
  });

const POLL_MS = 700;

export const contentUrl = (item: MediaItem): string => url(`/api/v1/trials/${item.trial_id}/media/${item.id}/content`);

/** Whether the content is read here and drawn, rather than left to an element of the browser. */
export const isDrawn = (item: MediaItem): boolean => item.mime.startsWith("text/") || item.mime.endsWith("json");

export interface MediaContent {
  url: string;
  /** Null where the browser shows the address. */
  text: string | null;
}

/** The content, after the node that has it has sent it. */
export const mediaContent = (item: MediaItem) =>
  queryOptions({
    queryKey: ["media-content", item.trial_id, item.id],
    queryFn: async ({ signal }): Promise<MediaContent> => {
      const path = { trial_id: item.trial_id, media_id: item.id };
      for (;;) {
        const { state, message } = await unwrap(
          client.POST("/api/v1/trials/{trial_id}/media/{media_id}:fetch", { params: { path }, signal }),
        );
        if (state === "ready") break;
        if (state === "failed") throw new ApiError(409, "media.unavailable", message);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        signal.throwIfAborted();
      }
      if (!isDrawn(item)) return { url: contentUrl(item), text: null };
      const text = await get("/api/v1/trials/{trial_id}/media/{media_id}/content", {
        params: { path },
        parseAs: "text",
        signal,
      });
      return { url: contentUrl(item), text: text as unknown as string };
    },
    retry: false,
    staleTime: Infinity,
  });
