import { type ReactNode, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import css from "./sectionIndex.module.css";

interface Entry {
  title: string;
  section: HTMLElement;
}

/** A long page of sections with an index of their titles above, which stays while one scrolls. */
export function SectionIndex({ children }: { children: ReactNode }) {
  const { t } = useTranslation();
  const box = useRef<HTMLDivElement>(null);
  const [entries, setEntries] = useState<Entry[]>([]);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const read = (): void => {
      const found = [...element.querySelectorAll<HTMLElement>("section")].flatMap((section): Entry[] => {
        const title = section.querySelector(":scope > div > h2")?.textContent ?? "";
        return title === "" || section.parentElement?.closest("section") ? [] : [{ title, section }];
      });
      setEntries((before) =>
        before.length === found.length &&
        before.every((one, at) => one.section === found[at]?.section && one.title === found[at]?.title)
          ? before
          : found,
      );
    };
    read();
    // Sections come when their data does.
    const observer = new MutationObserver(read);
    observer.observe(element, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, []);
  const go = (section: HTMLElement): void => {
    section.scrollIntoView({ block: "start" });
    // Who uses the keyboard goes on from there.
    section.tabIndex = -1;
    section.focus({ preventScroll: true });
  };
  return (
    <>
      {entries.length > 2 ? (
        <nav className={css["index"]} aria-label={t("common.onThisPage")} data-testid="section-index">
          {entries.map(({ title, section }) => (
            <button key={title} type="button" onClick={() => go(section)}>
              {title}
            </button>
          ))}
        </nav>
      ) : null}
      <div ref={box} className={css["body"]}>
        {children}
      </div>
    </>
  );
}
