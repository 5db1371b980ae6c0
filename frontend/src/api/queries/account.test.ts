import { QueryClient } from "@tanstack/react-query";
import { afterEach, expect, test } from "vitest";

import { client } from "../client";
import { joinTokens, tokens, users } from "./account";

/** A list of three, two to a page. */
const paged = {
  onRequest: ({ request }: { request: Request }) => {
    const isSecond = new URL(request.url).searchParams.get("cursor") === "more";
    return Response.json({ items: isSecond ? [{ id: 3 }] : [{ id: 1 }, { id: 2 }], next: isSecond ? null : "more" });
  },
};
client.use(paged);
afterEach(() => client.eject(paged));

test("lists that settings show whole are read to their end", async () => {
  const read = new QueryClient();
  for (const found of [
    await read.fetchQuery(users),
    await read.fetchQuery(tokens),
    await read.fetchQuery(joinTokens),
  ]) {
    expect(found.items.map(({ id }) => id)).toEqual([1, 2, 3]);
  }
});
