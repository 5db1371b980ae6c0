import { beforeEach, expect, test } from "vitest";

import { writePref } from "./prefs";
import { forgetPlaces, recentPlaces, rememberPlace } from "./recentPlaces";

beforeEach(forgetPlaces);

test("the newest place is first, once, and the oldest are forgotten", () => {
  for (let no = 1; no <= 10; no += 1) rememberPlace({ to: `/trials/${no}`, label: `Trial ${no}` });
  rememberPlace({ to: "/trials/5", label: "renamed · Trial 5" });
  const places = recentPlaces();
  expect(places[0]).toEqual({ to: "/trials/5", label: "renamed · Trial 5" });
  expect(places.map(({ to }) => Number(to.slice("/trials/".length)))).toEqual([5, 10, 9, 8, 7, 6, 4, 3]);
  forgetPlaces();
  expect(recentPlaces()).toEqual([]);
});

test.each(["not json", "{}", '[{"to":"https://example.org","label":"x"},{"to":"/nodes/a"},3]'])(
  "what cannot be read or leads away is left out: %s",
  (stored) => {
    writePref("recent", stored);
    expect(recentPlaces()).toEqual([]);
  },
);
