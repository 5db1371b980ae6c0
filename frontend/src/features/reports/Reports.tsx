import { Button, Select, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import { me, projects, reports } from "../../api/queries";
import { Clamped, Empty, LoadMore, PageHead } from "../../components/basics";
import { FormDialog } from "../../components/dialogs/FormDialog";
import { QueryView } from "../../components/QueryView";
import { type Column, column, DataTable, lead } from "../../components/tables/DataTable";
import { Ago, Stamp } from "../../components/Time";

type Row = Schemas["ReportOut"];

/** All reports that the reader may see, the newest first. */
export function Reports() {
  const { t } = useTranslation();
  const query = useInfiniteQuery(reports());
  const mayCreate = useQuery(me).data?.role !== "viewer";
  const [isNew, setIsNew] = useState(false);
  const columns: Column<Row>[] = [
    lead("title", t("reports.title"), (one) => (
      <Link to="/reports/$reportId" params={{ reportId: String(one.id) }}>
        <Clamped text={one.title} />
      </Link>
    )),
    column("project", t("reports.project"), ({ project }) => project),
    column("owner", t("reports.owner"), ({ owner }) => owner ?? t("reports.nobody")),
    column("values", t("reports.values"), (one) =>
      one.frozen_at === null ? (
        t("reports.live")
      ) : (
        <>
          {t("reports.frozenAt")} <Stamp at={one.frozen_at} />
        </>
      ),
    ),
    column("changed", t("reports.changed"), (one) => <Ago at={one.changed_at} />),
  ];
  return (
    <>
      <PageHead
        guide="guides/reports"
        title={t("nav.reports")}
        actions={
          mayCreate ? (
            <Button leftSection={<IconPlus size={15} aria-hidden />} onClick={() => setIsNew(true)}>
              {t("reports.new")}
            </Button>
          ) : null
        }
      />
      <QueryView query={query}>
        {({ pages }) => {
          const rows = pages.flatMap((page) => page.items);
          return rows.length === 0 ? (
            <Empty title={t("reports.none")}>{t("reports.noneHint")}</Empty>
          ) : (
            <>
              <DataTable
                rows={rows}
                columns={columns}
                rowKey={({ id }) => id}
                label={t("nav.reports")}
                testId="reports"
              />
              <LoadMore query={query} shown={rows.length} />
            </>
          );
        }}
      </QueryView>
      {isNew ? <NewReport onClose={() => setIsNew(false)} /> : null}
    </>
  );
}

function NewReport({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const router = useRouter();
  const queryClient = useQueryClient();
  const names = useInfiniteQuery(projects).data?.pages.flatMap((page) => page.items.map(({ name }) => name)) ?? [];
  const [title, setTitle] = useState("");
  const [chosen, setChosen] = useState<string | null>(null);
  const project = chosen ?? names[0] ?? null;
  const create = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/reports", { body: { project: project ?? "", title: title.trim(), blocks: [] } })),
    onSuccess: async ({ id }) => {
      await queryClient.invalidateQueries({ queryKey: ["reports"] });
      await router.navigate({ to: "/reports/$reportId", params: { reportId: String(id) } });
    },
  });
  return (
    <FormDialog
      title={t("reports.new")}
      action={t("reports.create")}
      ready={title.trim() !== "" && project !== null}
      pending={create.isPending}
      error={create.error}
      testId="new-report"
      onSubmit={() => create.mutate()}
      onClose={onClose}
    >
      <TextInput
        label={t("reports.title")}
        value={title}
        maxLength={200}
        onChange={(event) => setTitle(event.currentTarget.value)}
        data-autofocus
      />
      <Select
        label={t("reports.project")}
        description={t("reports.projectHint")}
        data={names}
        value={project}
        searchable
        allowDeselect={false}
        onChange={setChosen}
      />
    </FormDialog>
  );
}
