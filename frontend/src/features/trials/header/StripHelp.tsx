import { ActionIcon, Popover } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

import css from "../trials.module.css";

/** What the figures of the strip are over: their tooltips, for a keyboard and a finger. */
export function StripHelp({ items }: { items: { label: string; title: string }[] }) {
  const { t } = useTranslation();
  if (items.length === 0) return null;
  return (
    <Popover position="bottom-end" width={340} shadow="md" trapFocus>
      <Popover.Target>
        <ActionIcon
          size="sm"
          variant="subtle"
          color="gray"
          aria-label={t("trial.stat.about")}
          data-testid="about-figures"
        >
          <IconInfoCircle size={14} aria-hidden />
        </ActionIcon>
      </Popover.Target>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the focus goes to what is to be read */}
      <Popover.Dropdown tabIndex={0} data-autofocus aria-label={t("trial.stat.about")}>
        <dl className={css["about"]}>
          {items.map(({ label, title }) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{title}</dd>
            </div>
          ))}
        </dl>
      </Popover.Dropdown>
    </Popover>
  );
}
