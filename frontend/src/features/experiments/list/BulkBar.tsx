import { Button, Menu } from "@mantine/core";
import { IconChevronDown } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Fragment, useState } from "react";
import { useTranslation } from "react-i18next";

import { bulkPreview, type ExperimentFilter } from "../../../api/queries";
import { LinkButton } from "../../../components/LinkButton";
import { errorLine } from "../../../components/text/Message";
import css from "../../../components/tables/filters.module.css";
import lost from "../../../common/experiments/experiments.module.css";
import { BULK_ACTIONS, type BulkAction, bulkBody, isLosing, leavesOut, type Selection } from "./bulk";
import { BulkDialog } from "./BulkDialog";

/** What is selected, how to select all that match, and what to do with it. */
export function BulkBar({
  selection,
  filter,
  hasMore,
  compare,
  onSelect,
}: {
  selection: Selection;
  /** Of what is selected, the only or the best trials. */
  compare: number[];
  filter: ExperimentFilter;
  /** The list goes on beyond the rows that are shown, all of which are selected. */
  hasMore: boolean;
  onSelect: (selection: Selection | null) => void;
}) {
  const { t } = useTranslation();
  const [asked, setAsked] = useState<BulkAction | null>(null);
  const beyond = hasMore && selection.kind === "ids";
  // The number depends on the filter alone; any operation counts alike.
  const all = useQuery({
    ...bulkPreview(bulkBody("archive", { kind: "filter", filter, num: 0 })),
    enabled: beyond && leavesOut(filter),
  });
  const num = selection.kind === "ids" ? selection.ids.length : selection.num;
  return (
    <div className={css["filters"]} role="group" aria-label={t("bulk.label")} data-testid="bulk-bar">
      <b role="status" className="num">
        {t(selection.kind === "ids" ? "bulk.selected" : "bulk.allSelected", { count: num })}
      </b>
      {beyond && all.data && all.data.num > num ? (
        <Button
          variant="subtle"
          size="compact-xs"
          onClick={() => onSelect({ kind: "filter", filter, num: all.data.num })}
          data-testid="select-all-matching"
        >
          {t("bulk.selectAll", { count: all.data.num })}
        </Button>
      ) : null}
      {beyond && !leavesOut(filter) ? <span className="dim">{t("bulk.filterFirst")}</span> : null}
      {beyond && all.error ? <span className="dim">{errorLine(all.error)}</span> : null}
      <Menu position="bottom-start">
        <Menu.Target>
          <Button variant="default" rightSection={<IconChevronDown size={14} aria-hidden />} data-testid="bulk-actions">
            {t("bulk.do")}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {BULK_ACTIONS.map((action) => (
            <Fragment key={action}>
              {action === BULK_ACTIONS.find(isLosing) ? <Menu.Divider /> : null}
              <Menu.Item
                color={isLosing(action) ? "red" : undefined}
                onClick={() => setAsked(action)}
                data-testid={`bulk-${action}`}
              >
                {action === "label" ? t("bulk.action.label") : t(`operation.${action}`)}
                {isLosing(action) ? <span className={lost["loses"]}>{t(`operation.loses.${action}`)}</span> : null}
              </Menu.Item>
            </Fragment>
          ))}
        </Menu.Dropdown>
      </Menu>
      {compare.length > 1 ? (
        <LinkButton to="/compare" search={{ trials: compare.join(",") }} variant="default" data-testid="compare">
          {t("nav.compare")}
        </LinkButton>
      ) : null}
      <Button variant="subtle" size="compact-xs" onClick={() => onSelect(null)}>
        {t("bulk.clear")}
      </Button>
      {asked === null ? null : (
        <BulkDialog
          key={asked}
          action={asked}
          selection={selection}
          onClose={() => setAsked(null)}
          onDone={() => onSelect(null)}
        />
      )}
    </div>
  );
}
