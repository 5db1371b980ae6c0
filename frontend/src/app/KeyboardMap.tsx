import { Modal, Switch } from "@mantine/core";
import { useRouter } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { usePref } from "../lib/prefs";
import { isTyping, keyMap, PAGES, reader } from "./keyMap";
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

function Group({ title, rows }: { title: string; rows: [string, ReactNode][] }) {
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

/** Listens for the keys that work anywhere, and shows all there are. */
export default function KeyboardMap() {
  const { t } = useTranslation();
  const router = useRouter();
  const [opened, setOpened] = useState(false);
  const [single, setSingle] = usePref("keys");
  const isOn = single !== OFF;
  useEffect(() => {
    keyMap.open = () => setOpened(true);
    if (!isOn) return undefined;
    const read = reader();
    const onKey = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || isTyping(event)) return;
      const pressed = read(event, event.timeStamp);
      if (!pressed) return;
      event.preventDefault();
      if (pressed.kind === "map") setOpened(true);
      else if (pressed.kind === "go") void router.navigate({ to: pressed.to });
      else document.querySelector<HTMLInputElement>("main [data-filter]")?.focus();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [router, isOn]);
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
          <Group
            title={t("keys.anywhere")}
            rows={[
              ["Ctrl K", t("keys.palette")],
              ["?", t("keys.map")],
              ["/", t("keys.filter")],
              ...Object.entries(PAGES).map(([key, page]): [string, string] => [
                `g ${key}`,
                t("keys.goTo", { page: t(`nav.${page.key}`) }),
              ]),
            ]}
          />
          <Group
            title={t("keys.inCharts")}
            rows={[
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
            ]}
          />
          <Group title={t("keys.inEditor")} rows={[["Ctrl Enter", t("keys.submit")]]} />
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
