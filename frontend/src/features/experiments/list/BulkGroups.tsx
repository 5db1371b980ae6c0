import { useTranslation } from "react-i18next";

import { stateWord } from "../../../components/StateBadge";
import { messageOf } from "../../../i18n/server";
import { type BulkItem, grouped } from "./bulk";
import css from "./bulk.module.css";

/** Every experiment with what happens, or happened, to it; refused ones by reason. */
export function BulkGroups({ items, done }: { items: BulkItem[]; done: boolean }) {
  const { t } = useTranslation();
  return (
    <div className={css["groups"]}>
      {grouped(items).map((group) => (
        <details
          key={`${group.outcome} ${group.code ?? ""}`}
          open={group.items.length <= 8 || group.outcome === "refused"}
          data-testid={`group-${group.outcome}`}
        >
          <summary>
            {t(`bulk.${done ? "did" : "will"}.${group.outcome}`, { count: group.items.length })}
            {messageOf("errors", group.code) ? `：${messageOf("errors", group.code)}` : null}
            {group.code ? <span className="mono dim"> {group.code}</span> : null}
          </summary>
          {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
          <ul
            tabIndex={0}
            aria-label={t(`bulk.${done ? "did" : "will"}.${group.outcome}`, { count: group.items.length })}
          >
            {group.items.map((item) => (
              <li key={item.id}>
                <span className="num">#{item.id}</span> {item.name}{" "}
                {item.state ? <span className="dim">{stateWord(t, item.state)}</span> : null}
                {item.message ? <div className="dim">{item.message}</div> : null}
              </li>
            ))}
          </ul>
        </details>
      ))}
    </div>
  );
}
