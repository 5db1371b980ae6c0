import type { ReactNode } from "react";

import { Mark } from "../../components/text/Mark";
import css from "./auth.module.css";

export function Frame({
  title,
  lead,
  children,
  foot,
}: {
  title: string;
  lead?: ReactNode;
  children: ReactNode;
  foot?: ReactNode;
}) {
  return (
    <main className={css["page"]}>
      <title>{`${title} · Muster`}</title>
      <div className={css["box"]}>
        <div className={css["brand"]}>
          <Mark />
          Muster
        </div>
        <h1>{title}</h1>
        {lead ? <p className={css["lead"]}>{lead}</p> : null}
        {children}
        {foot ? <div className={css["foot"]}>{foot}</div> : null}
      </div>
    </main>
  );
}

/** The token alone, also of somebody who pastes the whole link. */
export const tokenOf = (pasted: string): string => pasted.trim().replace(/^.*#(?:token|once)=/, "");
