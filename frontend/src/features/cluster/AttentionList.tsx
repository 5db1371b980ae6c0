import { ActionIcon, Button } from "@mantine/core";
import { IconAlertTriangle, IconArrowBackUp, IconCircleX, IconX } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { type Cluster, dismissals, type Node } from "../../api/queries";
import { RemedyLinks } from "../../common/experiments/RemedyLinks";
import { ErrorNotice } from "../../components/QueryView";
import { Reason, sentence } from "../../components/text/Message";
import { Ago } from "../../components/Time";
import { useNow } from "../../components/useNow";
import { actionsOf, type Attention, attention } from "./attention";
import css from "./cluster.module.css";

/** The figures of the cluster stay on the first screen. */
const SHOWN = 5;

/** What needs somebody; each entry can be dismissed, for this user on every device. */
export function AttentionList(props: { cluster: Cluster | undefined; nodes: Node[] }) {
  const { t } = useTranslation();
  const now = useNow();
  const { keys, isKnown, set, error } = useDismissals();
  const [showsAll, setShowsAll] = useState(false);
  const [showsDismissed, setShowsDismissed] = useState(false);
  // Nothing that was dismissed flashes up while it is not known what that is.
  const all = isKnown ? attention(props.cluster, props.nodes, now) : [];
  const open = all.filter((item) => !keys.has(item.key));
  const dismissed = all.filter((item) => keys.has(item.key));
  if (all.length === 0) return null;
  const shown = showsAll ? open : open.slice(0, SHOWN);
  return (
    <div className={css["attentionBox"]}>
      {error ? <ErrorNotice error={error} /> : null}
      <ul className={css["attention"]} aria-label={t("attention.label")} data-testid="attention">
        {shown.map((item) => (
          <Item key={item.key} item={item} onToggle={() => set(item.key, true)} />
        ))}
        {showsDismissed
          ? dismissed.map((item) => (
              <Item key={item.key} item={item} isDismissed onToggle={() => set(item.key, false)} />
            ))
          : null}
      </ul>
      <div className={css["attentionFoot"]}>
        {open.length > SHOWN ? (
          <Button variant="subtle" color="gray" size="compact-xs" onClick={() => setShowsAll(!showsAll)}>
            {showsAll ? t("attention.fewer") : t("overview.moreAttention", { count: open.length - SHOWN })}
          </Button>
        ) : null}
        {dismissed.length > 0 ? (
          <Button
            variant="subtle"
            color="gray"
            size="compact-xs"
            aria-pressed={showsDismissed}
            onClick={() => setShowsDismissed(!showsDismissed)}
            data-testid="dismissed"
          >
            {t(showsDismissed ? "attention.hideDismissed" : "attention.showDismissed", { count: dismissed.length })}
          </Button>
        ) : null}
      </div>
    </div>
  );
}

function Item({
  item,
  isDismissed = false,
  onToggle,
}: {
  item: Attention;
  isDismissed?: boolean;
  onToggle: () => void;
}) {
  const { t } = useTranslation();
  const title = t(`attention.${item.kind}`, { name: item.name, no: item.no ?? "", count: item.count ?? 1 });
  const label = t(isDismissed ? "attention.restore" : "attention.dismiss", { what: title });
  const Icon = item.tone === "bad" ? IconCircleX : IconAlertTriangle;
  return (
    <li data-tone={item.tone} data-dismissed={isDismissed || undefined}>
      <Icon size={15} aria-hidden />
      <div>
        <Link to={item.to} search={item.tab ? { tab: item.tab } : (item.search ?? {})}>
          {title}
        </Link>
        {item.detail ? (
          <span className="dim">
            {" "}
            {item.parts ? <Reason text={item.detail} parts={item.parts} /> : sentence(item.detail)}
          </span>
        ) : null}
        {isDismissed ? null : <RemedyLinks remedies={actionsOf(item)} />}
      </div>
      {item.at ? <Ago at={item.at} /> : <span />}
      <ActionIcon size="sm" variant="subtle" color="gray" aria-label={label} title={label} onClick={onToggle}>
        {isDismissed ? <IconArrowBackUp size={14} /> : <IconX size={14} />}
      </ActionIcon>
    </li>
  );
}

/** What this user has dismissed, and the way to change it: shown at once, taken back if the server refuses. */
function useDismissals() {
  const queryClient = useQueryClient();
  const query = useQuery(dismissals);
  const change = useMutation({
    mutationFn: ({ key, on }: { key: string; on: boolean }) => {
      const params = { path: { key } };
      return on
        ? unwrap(client.PUT("/api/v1/dismissals/{key}", { params }))
        : unwrap(client.DELETE("/api/v1/dismissals/{key}", { params }));
    },
    onMutate: async ({ key, on }) => {
      await queryClient.cancelQueries({ queryKey: dismissals.queryKey });
      queryClient.setQueryData(dismissals.queryKey, (before: string[] | undefined) =>
        on ? [key, ...(before ?? [])] : (before ?? []).filter((one) => one !== key),
      );
    },
    onSettled: () => queryClient.invalidateQueries({ queryKey: dismissals.queryKey }),
  });
  return {
    keys: new Set(query.data),
    isKnown: !query.isPending,
    set: (key: string, on: boolean) => change.mutate({ key, on }),
    error: change.error,
  };
}
