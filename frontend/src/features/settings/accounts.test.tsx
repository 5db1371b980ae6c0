import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test } from "vitest";

import { client, type Schemas } from "../../api/client";
import { me } from "../../api/queries";
import { showTexts } from "../../testing/texts";
import { browserName } from "./access/browserName";
import { Sessions } from "./access/Sessions";
import { Users } from "./access/Users";

const AT = "2026-01-02T03:04:05Z";
const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const ADA: Schemas["UserOut"] = {
  id: 1,
  username: "ada",
  role: "admin",
  kind: "person",
  description: "",
  is_active: true,
  is_provisioned: false,
  invited_until: null,
  is_invitable: false,
  created_at: AT,
  last_login_at: AT,
};
const CI: Schemas["UserOut"] = {
  ...ADA,
  id: 2,
  username: "ci-bot",
  role: "member",
  kind: "service",
  description: "Nightly runs",
  last_login_at: null,
};
const TOKEN: Schemas["TokenOut"] = {
  id: 7,
  name: "nightly",
  prefix: "mst_usr_abc",
  role: "member",
  created_at: AT,
  expires_at: AT,
  last_used_at: null,
  parent_id: null,
  projects: ["vision"],
  expires_soon: true,
};
const SESSION: Schemas["SessionOut"] = {
  id: "0123456789abcdef",
  created_at: AT,
  last_seen_at: AT,
  expires_at: AT,
  remote_addr: "10.0.0.9",
  user_agent: FIREFOX,
  is_current: true,
};
/** What was sent: method and path, with the body. */
const sent = new Map<string, unknown>();
const ANSWERS: Record<string, unknown[]> = {
  "/api/v1/users": [
    ADA,
    CI,
    { ...ADA, id: 3, username: "grace", is_provisioned: true },
    { ...ADA, id: 4, username: "ben", last_login_at: null, invited_until: AT, is_invitable: true },
  ],
  "/api/v1/projects": [{ name: "vision" }],
  "/api/v1/users/2/tokens": [TOKEN],
  "/api/v1/sessions": [SESSION, { ...SESSION, id: "f".repeat(16), user_agent: "curl/8", is_current: false }],
};
const server = {
  onRequest: async ({ request }: { request: Request }) => {
    const path = new URL(request.url).pathname;
    if (request.method === "GET") return Response.json({ items: ANSWERS[path] ?? [], next: null });
    sent.set(`${request.method} ${path}`, request.method === "DELETE" ? null : await request.json());
    if (path === "/api/v1/users:invite")
      return Response.json({ user: ADA, url: "http://m/invitation#invitation=mst_once_abc", this_machine_only: false });
    return request.method === "DELETE"
      ? new Response(null, { status: 204 })
      : Response.json({ ...TOKEN, ...CI, secret: "mst_usr_secret" }, { status: 201 });
  },
};
beforeEach(() => {
  sent.clear();
  client.use(server);
});
afterEach(() => {
  client.eject(server);
  cleanup();
});

async function show(page: React.ReactNode): Promise<void> {
  await showTexts("en");
  const queryClient = new QueryClient();
  queryClient.setQueryData(me.queryKey, {
    ...ADA,
    has_password: true,
    provider_account: null,
    has_second_factor: false,
    permissions: [],
  });
  render(
    <MantineProvider>
      <QueryClientProvider client={queryClient}>{page}</QueryClientProvider>
    </MantineProvider>,
  );
}

test("the list says whose accounts an identity provider manages", async () => {
  await show(<Users />);
  const row = await screen.findByRole("row", { name: /grace/ });
  expect(within(row).getByText(/managed by SCIM/)).toBeTruthy();
  expect(screen.getAllByText(/managed by SCIM/)).toHaveLength(1);
});

test("a person is invited by a link, which is shown once, replaced and revoked", async () => {
  await show(<Users />);
  const form = screen.getByTestId("user-form");
  expect(within(form).queryByLabelText(/password/i)).toBeNull();
  fireEvent.change(within(form).getByLabelText("Username"), { target: { value: "eve" } });
  fireEvent.click(within(form).getByRole("button", { name: "Create invitation link" }));
  expect((await screen.findByTestId("invitation-link")).textContent).toContain("#invitation=mst_once_abc");
  expect(sent.get("POST /api/v1/users:invite")).toEqual({ username: "eve", role: "member", projects: [] });
  const row = within(await screen.findByRole("row", { name: /ben/ }));
  expect(row.getByText(/Invited until/)).toBeTruthy();
  fireEvent.click(row.getByRole("button", { name: "New link" }));
  await waitFor(() => expect(sent.get("POST /api/v1/users:invite")).toEqual({ username: "ben", projects: [] }));
  fireEvent.click(row.getByRole("button", { name: "Revoke link" }));
  fireEvent.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Revoke link" }));
  await waitFor(() => expect(sent.has("DELETE /api/v1/users/4/invitation")).toBe(true));
  expect(screen.getAllByRole("button", { name: "New link" })).toHaveLength(1);
});

test("service accounts are listed apart, with their tokens", async () => {
  await show(<Users />);
  const table = await screen.findByTestId("service-accounts");
  expect(within(table).getByText("ci-bot")).toBeTruthy();
  expect(within(screen.getByTestId("users")).queryByText("ci-bot")).toBeNull();
  fireEvent.click(within(table).getByRole("button", { name: "API tokens" }));
  const tokens = await screen.findByTestId("tokens");
  expect(within(tokens).getByText("vision")).toBeTruthy();
  expect(within(tokens).getByText("Soon")).toBeTruthy();
  const form = screen.getByTestId("token-form");
  fireEvent.change(within(form).getByLabelText("Name"), { target: { value: "weekly" } });
  fireEvent.click(within(form).getByRole("button", { name: "Create token" }));
  await screen.findByTestId("new-token");
  expect(sent.get("POST /api/v1/users/2/tokens")).toEqual({ name: "weekly", expires_in_days: 90 });
});

test("a service account is created without a password", async () => {
  await show(<Users />);
  const form = await screen.findByTestId("user-form");
  fireEvent.click(within(form).getByLabelText("Service account"));
  expect(within(form).queryByLabelText("Initial password")).toBeNull();
  fireEvent.change(within(form).getByLabelText("Username"), { target: { value: "bot" } });
  fireEvent.change(within(form).getByLabelText("Purpose"), { target: { value: "Weekly" } });
  fireEvent.click(within(form).getByRole("button", { name: "Create service account" }));
  await waitFor(() => expect(sent.size).toBe(1));
  expect(sent.get("POST /api/v1/users")).toEqual({
    username: "bot",
    role: "member",
    kind: "service",
    description: "Weekly",
  });
});

test("another browser is signed out, and not this one", async () => {
  await show(<Sessions />);
  expect(await screen.findByText("This browser")).toBeTruthy();
  expect(screen.getByText("Firefox · Linux")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Sign out" }));
  fireEvent.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Sign out" }));
  await waitFor(() => expect(sent.has(`DELETE /api/v1/sessions/${"f".repeat(16)}`)).toBe(true));
});

test.each([
  [FIREFOX, "Firefox · Linux"],
  ["Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge · Windows"],
  ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari · iPhone"],
  ["curl/8", "curl/8"],
  ["", ""],
])("browser of %s", (userAgent, name) => {
  expect(browserName(userAgent)).toBe(name);
});
