import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type ComponentProps, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import { me } from "../../../api/queries";
import { Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { FormDialog } from "../../../components/dialogs/FormDialog";
import { actions, type Column, DataTable } from "../../../components/tables/DataTable";
import { useTimeZone } from "../../../components/Time";
import type { TimeZone } from "../../../lib/time";
import css from "../cluster.module.css";

/** The moment of a date and time that was typed; null for none. */
const momentOf = (typed: string, zone: TimeZone): string | null =>
  typed ? new Date(zone === "utc" ? `${typed}Z` : typed).toISOString() : null;

/** A button that opens a dialog. */
export function DialogButton(props: { label: string; testId: string; dialog: (onClose: () => void) => ReactNode }) {
  const [opened, setOpened] = useState(false);
  return (
    <>
      <Button variant="default" onClick={() => setOpened(true)} data-testid={props.testId}>
        {props.label}
      </Button>
      {opened ? props.dialog(() => setOpened(false)) : null}
    </>
  );
}

/** A period as it is typed. */
export interface TypedPeriod {
  from: string;
  length: string;
}

/** Asks for a period: what it is about, when it begins, how long it is; `after`: what is asked behind that. */
export function PeriodForm({
  period,
  onPeriod,
  hasBegun = false,
  fromHint,
  lengthHint,
  after,
  save,
  children,
  ...dialog
}: Pick<ComponentProps<typeof FormDialog>, "title" | "action" | "ready" | "testId" | "onClose" | "children"> & {
  period: TypedPeriod;
  onPeriod: (period: TypedPeriod) => void;
  /** Its beginning cannot be changed. */
  hasBegun?: boolean;
  /** Instead of what an empty beginning of a new one means. */
  fromHint?: string;
  lengthHint: string;
  after: ReactNode;
  save: (times: { starts_at: string | null; ends_at: string | null }) => Promise<unknown>;
}) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const queryClient = useQueryClient();
  const action = useMutation({
    mutationFn: () => save({ starts_at: momentOf(period.from, zone), ends_at: period.length.trim() || null }),
    onSuccess: async () => {
      dialog.onClose();
      await queryClient.invalidateQueries();
    },
  });
  return (
    <FormDialog {...dialog} pending={action.isPending} error={action.error} onSubmit={() => action.mutate()}>
      {children}
      {hasBegun ? null : (
        <TextInput
          type="datetime-local"
          label={t("maintenance.from")}
          description={fromHint ?? t(zone === "utc" ? "maintenance.fromHintUtc" : "maintenance.fromHint")}
          value={period.from}
          onChange={(event) => onPeriod({ ...period, from: event.currentTarget.value })}
        />
      )}
      <TextInput
        label={t("maintenance.length")}
        description={lengthHint}
        value={period.length}
        onChange={(event) => onPeriod({ ...period, length: event.currentTarget.value })}
      />
      {after}
    </FormDialog>
  );
}

/** Active and planned periods in a table; nothing where there are none. Administrators end and change them here. */
export function PeriodTable<Row extends { id: number; is_active: boolean }>(props: {
  rows: readonly Row[];
  columns: Column<Row>[];
  title: string;
  guide: string;
  testId: string;
  /** The word for ending a period. */
  endWord: (row: Row) => string;
  endTitle: (row: Row) => string;
  endText: (row: Row) => string;
  end: (id: number) => Promise<unknown>;
  /** The dialog that changes a period, for those that can be changed. */
  change?: (row: Row, onClose: () => void) => ReactNode;
  /** What is shown above the table. */
  children?: ReactNode;
}) {
  const { t } = useTranslation();
  const isAdmin = useQuery(me).data?.role === "admin";
  const [asked, setAsked] = useState<{ what: "end" | "change"; row: Row } | null>(null);
  const close = (): void => setAsked(null);
  const button = (row: Row, what: "end" | "change", label: string): ReactNode => (
    <Button
      variant="subtle"
      size="compact-xs"
      onClick={() => setAsked({ what, row })}
      data-testid={`${props.testId}-${what}`}
    >
      {label}
    </Button>
  );
  const columns = [
    ...props.columns,
    ...(isAdmin
      ? [
          actions("end", t("common.rowActions"), (row: Row) => (
            <>
              {props.change ? button(row, "change", t("common.edit")) : null}
              {button(row, "end", props.endWord(row))}
            </>
          )),
        ]
      : []),
  ];
  return (
    <>
      {props.rows.length === 0 ? null : (
        <Section guide={props.guide} title={props.title}>
          {props.children}
          <DataTable
            rows={[...props.rows]}
            columns={columns}
            rowKey={(row) => row.id}
            label={props.title}
            testId={props.testId}
          />
        </Section>
      )}
      {asked?.what === "change" ? props.change?.(asked.row, close) : null}
      {asked?.what === "end" ? (
        <ConfirmAction
          onClose={close}
          title={props.endTitle(asked.row)}
          action={props.endWord(asked.row)}
          run={() => props.end(asked.row.id)}
        >
          {props.endText(asked.row)}
        </ConfirmAction>
      ) : null}
    </>
  );
}

/** Names to tick. */
export function Choices(props: {
  label: string;
  choices: readonly string[];
  chosen: readonly string[];
  onChange: (names: string[]) => void;
}) {
  const { chosen, onChange } = props;
  return (
    <fieldset className={css["choice"]}>
      <legend>{props.label}</legend>
      {props.choices.map((name) => (
        <label key={name}>
          <input
            type="checkbox"
            checked={chosen.includes(name)}
            onChange={(event) =>
              onChange(event.currentTarget.checked ? [...chosen, name] : chosen.filter((one) => one !== name))
            }
          />
          <span>{name}</span>
        </label>
      ))}
    </fieldset>
  );
}
