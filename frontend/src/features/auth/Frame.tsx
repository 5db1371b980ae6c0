import type { ReactNode } from "react";

import { Mark } from "../../components/Mark";
import css from "./auth.module.css";

export function Frame({ title, lead, children, foot }: { title: string; lead?: ReactNode; children: ReactNode; foot?: ReactNode }) {
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

/** Takes `#name=value` out of the address at once, so that the secret does not stay in history. */
export function takeFromHash(name: string): string | null {
  const params = new URLSearchParams(location.hash.slice(1));
  const value = params.get(name);
  if (value !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return value;
}
