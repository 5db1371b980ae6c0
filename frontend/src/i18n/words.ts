import type { ParseKeys, TFunction } from "i18next";

import type { en } from "./en";
import type { pages } from "./en/pages";

type GroupsOf<Texts, Before extends string = ""> = {
  [Key in keyof Texts & string]: Texts[Key] extends string
    ? never
    : `${Before}${Key}` | GroupsOf<Texts[Key], `${Before}${Key}.`>;
}[keyof Texts & string];

/** The word of a group, such as "nodes.healthWord", for a value of the server; `otherwise` for one that has none. */
export function word(
  t: TFunction,
  group: GroupsOf<typeof en> | GroupsOf<typeof pages>,
  value: string,
  otherwise: string = value,
): string {
  const key: string = `${group}.${value}`;
  return t(key as ParseKeys, { defaultValue: otherwise });
}
