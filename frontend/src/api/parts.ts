import { useQuery } from "@tanstack/react-query";

import { authState } from "./queries";

/** The part of Muster without which a page is not there. */
const PART_OF: Partial<Record<string, string>> = { models: "models", deployments: "models" };

/** Whether a page is there, by its key in `nav`. Until the server has said which parts it has, every page is. */
export function useIsThere(): (page: string) => boolean {
  const parts = useQuery({ ...authState, staleTime: Infinity }).data?.parts;
  return (page) => {
    const part = PART_OF[page];
    return part === undefined || parts === undefined || parts.includes(part);
  };
}
