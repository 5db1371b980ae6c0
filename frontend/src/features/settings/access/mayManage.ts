import { useInfiniteQuery, useQuery } from "@tanstack/react-query";

import { me, projectMembers } from "../../../api/queries";

/** Whether the user says who the members of a project are, and sets its secrets. */
export function useMayManage(project: string | undefined): boolean {
  const user = useQuery(me).data;
  const query = useInfiniteQuery({ ...projectMembers(project ?? ""), enabled: project !== undefined });
  const found = query.data?.pages.flatMap((page) => page.items) ?? [];
  // Which groups somebody is in is not said here: a maintainers' group may be one of theirs, and the server decides.
  const maintains = found.some(
    ({ kind, name, role }) => role === "maintainer" && (kind === "group" || name === user?.username),
  );
  return user?.role === "admin" || (user?.role === "member" && maintains);
}
