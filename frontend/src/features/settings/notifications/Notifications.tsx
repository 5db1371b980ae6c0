import { useQuery } from "@tanstack/react-query";

import { me } from "../../../api/queries";
import { NotificationRules } from "./NotificationRules";
import { NotificationTargets } from "./NotificationTargets";

/** The user's rules and targets, or those of a project, which administrators change. */
export function Notifications({ project }: { project?: string }) {
  const role = useQuery(me).data?.role;
  const isOfProject = project !== undefined;
  return (
    <>
      <NotificationRules project={project} mayChange={isOfProject ? role === "admin" : role !== undefined} />
      <NotificationTargets
        project={project}
        mayChange={isOfProject ? role === "admin" : role === "admin" || role === "member"}
      />
    </>
  );
}
