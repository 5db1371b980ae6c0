import type { ReactNode } from "react";

import { url } from "../../lib/address";
import { followInner, useRouterHere } from "../text/innerLinks";

interface Props {
  /** The address of a run: one that has a single trial is that trial's page. */
  item: { id: number; only_trial_id?: number | null } | { trial: number };
  title?: string;
  children: ReactNode;
}

/** A link in a row of a long table. It is an anchor that asks the router nothing until it is clicked: scrolling
 * brings twenty rows a frame, and a router's own link costs as much as the rest of its row. */
export function RowLink({ item, title, children }: Props) {
  const router = useRouterHere();
  const trial = "trial" in item ? item.trial : item.only_trial_id;
  const href = trial ? `/trials/${trial}` : `/experiments/${"id" in item ? item.id : ""}`;
  return (
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- a link: Enter clicks it
    <a href={url(href)} title={title} onClick={(event) => followInner(router, event, event.currentTarget)}>
      {children}
    </a>
  );
}
