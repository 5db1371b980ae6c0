import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderHook } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, test, vi } from "vitest";

import { useIsThere } from "./parts";
import { authState } from "./queries";

function shownWith(parts: string[] | undefined): string[] {
  vi.spyOn(globalThis, "fetch").mockReturnValue(new Promise(() => undefined));
  const client = new QueryClient();
  if (parts)
    client.setQueryData(authState.queryKey, {
      setup_required: false,
      setup_command: null,
      sign_in_command: null,
      provider: null,
      version: "1",
      parts,
    });
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  );
  const { result } = renderHook(() => useIsThere(), { wrapper });
  return ["experiments", "models", "deployments"].filter(result.current);
}

test("pages of a part are there where it is installed, and until that is known", () => {
  expect(shownWith(["models"])).toEqual(["experiments", "models", "deployments"]);
  expect(shownWith(undefined)).toEqual(["experiments", "models", "deployments"]);
  expect(shownWith([])).toEqual(["experiments"]);
});
