import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

import css from "./ui.module.css";

/** Tabs that live in the URL (?tab=…), as links, so that they open in a new window and go back. */
export function Tabs({
  tabs,
  active,
  label,
  home = tabs[0]?.id,
}: {
  tabs: { id: string; label: string }[];
  active: string;
  label: string;
  /** The tab of an address that names none; the first one by default. */
  home?: string;
}) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a phone the chosen tab may lie outside; only the bar scrolls, not the page.
    const current = bar.current?.querySelector<HTMLElement>("[data-active]");
    if (bar.current && current) bar.current.scrollLeft = current.offsetLeft - bar.current.clientWidth / 3;
  }, [active, tabs.length]);
  return (
    <nav ref={bar} className={css["tabs"]} aria-label={label}>
      {tabs.map((tab) => (
        <Link
          key={tab.id}
          to="."
          search={
            ((previous: Record<string, unknown>) => ({
              ...previous,
              tab: tab.id === home ? undefined : tab.id,
            })) as never
          }
          data-active={active === tab.id || undefined}
          aria-current={active === tab.id ? "page" : undefined}
          data-testid={`tab-${tab.id}`}
        >
          {tab.label}
        </Link>
      ))}
    </nav>
  );
}
