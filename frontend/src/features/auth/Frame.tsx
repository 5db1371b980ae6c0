import { type ReactNode, useEffect, useState } from "react";

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

/** Takes `#name=value` out of the address at once, so that the secret does not stay in history. */
function takeFromHash(name: string): string | null {
  const value = new URLSearchParams(location.hash.slice(1)).get(name);
  if (value !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return value;
}

/** The value of `#name=value` in the address: what the page was opened with, or what was pasted into its tab since. */
export function useFromHash(name: string): string | null {
  const [value, setValue] = useState(() => takeFromHash(name));
  useEffect(() => {
    const onChange = (): void => {
      const pasted = takeFromHash(name);
      if (pasted !== null) setValue(pasted);
    };
    window.addEventListener("hashchange", onChange);
    return () => window.removeEventListener("hashchange", onChange);
  }, [name]);
  return value;
}
