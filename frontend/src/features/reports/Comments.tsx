import { Button, Textarea } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { reportComments } from "../../api/queries";
import { LoadMore } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import { Markdown } from "../../components/text/Markdown";
import { Ago } from "../../components/Time";
import css from "./reports.module.css";

/** What people wrote below a report, the oldest first. */
export function Comments({ id, mayWrite }: { id: number; mayWrite: boolean }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(reportComments(id));
  const queryClient = useQueryClient();
  const [text, setText] = useState("");
  const renew = () => queryClient.invalidateQueries({ queryKey: reportComments(id).queryKey });
  const add = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/reports/{report_id}/comments", { params: { path: { report_id: id } }, body: { text } }),
      ),
    onSuccess: async () => {
      setText("");
      await renew();
    },
  });
  const remove = useMutation({
    mutationFn: (commentId: number) =>
      unwrap(
        client.DELETE("/api/v1/reports/{report_id}/comments/{comment_id}", {
          params: { path: { report_id: id, comment_id: commentId } },
        }),
      ),
    onSettled: renew,
  });
  const items = query.data?.pages.flatMap((page) => page.items) ?? [];
  const error = query.error ?? add.error ?? remove.error;
  if (items.length === 0 && !mayWrite) return null;
  return (
    <section className={css["comments"]} aria-label={t("reports.comments")} data-testid="comments">
      <h2>{t("reports.comments")}</h2>
      <ol>
        {items.map((one) => (
          <li key={one.id}>
            <header>
              <b>{one.author ?? t("reports.nobody")}</b>
              <Ago at={one.created_at} />
              {one.may_delete ? (
                <Button variant="subtle" color="gray" size="compact-xs" onClick={() => remove.mutate(one.id)}>
                  {t("reports.delete")}
                </Button>
              ) : null}
            </header>
            <Markdown text={one.text} />
          </li>
        ))}
      </ol>
      <LoadMore query={query} shown={items.length} />
      {mayWrite ? (
        <>
          <Textarea
            aria-label={t("reports.comment")}
            placeholder={t("reports.comment")}
            autosize
            minRows={2}
            maxRows={10}
            maxLength={5000}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
          />
          <Button
            mt="xs"
            size="xs"
            variant="default"
            loading={add.isPending}
            disabled={text.trim() === ""}
            onClick={() => add.mutate()}
          >
            {t("reports.addComment")}
          </Button>
        </>
      ) : null}
      {error ? <ErrorNotice error={error} /> : null}
    </section>
  );
}
