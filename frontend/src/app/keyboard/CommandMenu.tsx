import "@mantine/spotlight/styles.css";

import { Spotlight, useSpotlight } from "@mantine/spotlight";
import { IconSearch } from "@tabler/icons-react";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { useCommands } from "./commands";
import { commandStore } from "./commandStore";

const ENTRY = "[data-action]";
const CHOSEN = "data-selected";

/** The library shows the description of the chosen entry at 70%, which is too pale on its background. */
const READABLE = { action: { "--action-description-opacity": "1" } };

/**
 * Keeps the first entry chosen while lists arrive, until the arrows have chosen another, which then stays
 * chosen. The library marks an element and remembers a number, and looks at neither again by itself.
 */
function useChosen(query: string, ids: string, opened: boolean) {
  const wasMoved = useRef(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    wasMoved.current = false;
  }, [query, opened]);
  useEffect(() => {
    if (!opened) return;
    const entries = [...(field.current?.closest("[role=dialog]")?.querySelectorAll(ENTRY) ?? [])];
    const marked = wasMoved.current ? entries.findIndex((entry) => entry.hasAttribute(CHOSEN)) : -1;
    if (marked < 0 && !query) return;
    const selected = Math.max(marked, 0);
    for (const [at, entry] of entries.entries())
      if (at === selected) entry.setAttribute(CHOSEN, "true");
      else entry.removeAttribute(CHOSEN);
    commandStore.updateState((state) => ({ ...state, selected }));
  }, [ids, query, opened]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") wasMoved.current = true;
  };
  return { ref: field, onKeyDown };
}

/** Ctrl/Cmd+K: everything that has an address, by name. */
export default function CommandMenu() {
  const { t } = useTranslation();
  const [query, setQuery] = useState("");
  // Of the store, since it may have been opened before this code was there.
  const { opened } = useSpotlight(commandStore);
  const groups = useCommands(query, opened);
  const ids = groups.flatMap(({ actions }) => actions.map(({ id }) => id)).join(" ");
  const chosen = useChosen(query, ids, opened);
  return (
    <Spotlight
      store={commandStore}
      query={query}
      onQueryChange={setQuery}
      shortcut="mod + K"
      tagsToIgnore={[]}
      lockScroll={false}
      attributes={{ content: { "aria-label": t("command.title") } }}
      styles={READABLE}
      scrollable
      maxHeight={420}
      nothingFound={t("command.none")}
      // What the lists hold has been chosen by the server, or by matching().
      filter={(_, actions) => actions}
      searchProps={{
        leftSection: <IconSearch size={16} />,
        placeholder: t("command.placeholder"),
        "aria-label": t("command.placeholder"),
        autoFocus: true,
        ...chosen,
      }}
      actions={groups}
    />
  );
}
