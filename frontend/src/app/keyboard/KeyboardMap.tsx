import { Modal, Switch } from "@mantine/core";
import { useRouter } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { useIsThere } from "../../api/parts";
import { useStable } from "../../components/useStable";
import { usePref } from "../../lib/prefs";
import { isTyping, keyMap, PAGES, type Part, partsShown, reader } from "./keyMap";
import css from "./keys.module.css";

const OFF = "off";

function Keys({ keys }: { keys: string }) {
  return (
    <>
      {keys.split(" ").map((key) => (
        <kbd key={key}>{key}</kbd>
      ))}
    </>
  );
}

type Row = [keys: string, words: ReactNode];

function Group({ title, rows }: { title: string; rows: Row[] }) {
  return (
    <section className={css["group"]}>
      <h3>{title}</h3>
      <dl>
        {rows.map(([keys, words]) => (
          <div key={keys}>
            <dt>
              <Keys keys={keys} />
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** The keys of each part of a page that has some. */
function usePartKeys(): Record<Part, { title: string; rows: Row[] }> {
  const { t } = useTranslation();
  return {
    rows: {
      title: t("keys.inRows"),
      rows: [
        ["↑ ↓", t("keys.row")],
        ["j k", t("keys.row")],
        ["Home End", t("keys.rowEnds")],
        ["Enter", t("keys.open")],
        ["Space", t("keys.peek")],
        ["x", t("keys.select")],
      ],
    },
    log: {
      title: t("keys.inLog"),
      rows: [
        ["n", t("keys.nextMatch")],
        ["N", t("keys.previousMatch")],
        ["f", t("keys.follow")],
        ["↑ ↓", t("keys.line")],
        ["→ ←", t("keys.duplicates")],
        ["Home End", t("keys.logEnds")],
        ["Esc", t("keys.deselect")],
      ],
    },
    bars: {
      title: t("keys.inBars"),
      rows: [
        ["← →", t("keys.bar")],
        ["Enter", t("keys.limitTo")],
      ],
    },
    chart: {
      title: t("keys.inCharts"),
      rows: [
        ["← →", t("keys.cursor")],
        ["Home End", t("keys.ends")],
        ["Shift ← →", t("keys.pan")],
        ["+ −", t("keys.zoom")],
        ["0", t("keys.reset")],
        ["l", t("keys.logY")],
        ["Shift L", t("keys.logX")],
        ["s", t("keys.smoothing")],
        ["f", t("keys.full")],
        ["d", t("keys.table")],
      ],
    },
    points: {
      title: t("keys.inPoints"),
      rows: [
        ["← → ↑ ↓", t("keys.point")],
        ["Home End", t("keys.ends")],
        ["Enter", t("keys.openPoint")],
      ],
    },
    editor: { title: t("keys.inEditor"), rows: [["Ctrl Enter", t("keys.submit")]] },
  };
}

/** Listens for the keys that work anywhere; shows them, and those of what is on the page. */
export default function KeyboardMap() {
  const { t } = useTranslation();
  const router = useRouter();
  const [opened, setOpened] = useState(false);
  const [parts, setParts] = useState<Part[]>([]);
  const partKeys = usePartKeys();
  const isThere = useIsThere();
  const { leadsTo } = useStable({
    leadsTo: (to: string): boolean => Object.values(PAGES).some((page) => page.to === to && isThere(page.key)),
  });
  const [single, setSingle] = usePref("keys");
  const isOn = single !== OFF;
  useEffect(() => {
    keyMap.open = () => {
      setParts(partsShown(document));
      setOpened(true);
    };
    if (!isOn) return undefined;
    const read = reader();
    const onKey = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || isTyping(event)) return;
      const pressed = read(event, event.timeStamp);
      if (!pressed) return;
      event.preventDefault();
      if (pressed.kind === "map") keyMap.open();
      else if (pressed.kind === "filter") document.querySelector<HTMLInputElement>("main [data-filter]")?.focus();
      else if (leadsTo(pressed.to)) void router.navigate({ to: pressed.to });
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [router, isOn, leadsTo]);
  return (
    <>
      <span hidden data-testid="keyboard-ready" />
      <Modal
        opened={opened}
        onClose={() => setOpened(false)}
        title={t("keys.title")}
        size="lg"
        closeButtonProps={{ "aria-label": t("common.close") }}
      >
        <div className={css["map"]} data-testid="keyboard-map">
          {parts.map((part) => (
            <Group key={part} {...partKeys[part]} />
          ))}
          <Group
            title={t("keys.anywhere")}
            rows={[
              ["Ctrl K", t("keys.palette")],
              ["?", t("keys.map")],
              ["/", t("keys.filter")],
              ...Object.entries(PAGES)
                .filter(([, page]) => isThere(page.key))
                .map(([key, page]): [string, string] => [`g ${key}`, t("keys.goTo", { page: t(`nav.${page.key}`) })]),
            ]}
          />
        </div>
        <Switch
          label={t("keys.single")}
          description={t("keys.singleHint")}
          checked={isOn}
          onChange={(e) => setSingle(e.currentTarget.checked ? null : OFF)}
        />
      </Modal>
    </>
  );
}
