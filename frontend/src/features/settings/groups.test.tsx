import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Outlet,
  RouterProvider,
} from "@tanstack/react-router";
import { cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { client, type Schemas } from "../../api/client";
import { me } from "../../api/queries";
import { showTexts } from "../../testing/texts";
import { Groups } from "./access/Groups";

const AT = "2026-01-02T03:04:05Z";
const VISION: Schemas["GroupOut"] = {
  name: "vision-team",
  provider_group: null,
  is_provisioned: false,
  num_members: 2,
  created_at: AT,
  created_by: "user:root",
};
const ADA: Schemas["UserOut"] = {
  id: 1,
  username: "ada",
  role: "member",
  kind: "person",
  description: "",
  is_active: true,
  is_provisioned: false,
  invited_until: null,
  is_invitable: false,
  created_at: AT,
  last_login_at: AT,
};
const MEMBERS = ["ada", "grace"].map((username) => ({ username, added_at: AT, added_by: "user:root" }));
const ANSWERS: Record<string, unknown[]> = {
  "/api/v1/groups": [
    VISION,
    { ...VISION, name: "lab", provider_group: "lab-people" },
    { ...VISION, name: "sight", provider_group: "Lab Sight", is_provisioned: true },
  ],
  "/api/v1/groups/vision-team/members": MEMBERS,
  "/api/v1/groups/lab/members": MEMBERS,
  "/api/v1/groups/sight/members": MEMBERS,
  "/api/v1/users": [ADA, { ...ADA, id: 2, username: "ben" }, { ...ADA, id: 3, username: "gone", is_active: false }],
};
/** What was sent: method and path, with the body. */
const sent = new Map<string, unknown>();
/** The error that the next change is answered with. */
let refusal: { code: string; message: string; hint: string } | null = null;
const server = {
  onRequest: async ({ request }: { request: Request }) => {
    const path = new URL(request.url).pathname;
    if (request.method === "GET") {
      if (path in ANSWERS) return Response.json({ items: ANSWERS[path], next: null });
      const error = { code: "groups.not_found", message: "There is no group 'nobody'.", hint: null, fields: [] };
      return Response.json({ error }, { status: 404 });
    }
    const body = await request.text();
    sent.set(`${request.method} ${path}`, body === "" ? null : JSON.parse(body));
    if (refusal) return Response.json({ error: { ...refusal, fields: [] } }, { status: 409 });
    return path.includes("/members/") || request.method === "DELETE"
      ? new Response(null, { status: 204 })
      : Response.json(VISION);
  },
};
const scrolled = vi.fn();
beforeEach(() => {
  Element.prototype.scrollIntoView = scrolled; // jsdom has none
  scrolled.mockClear();
  sent.clear();
  refusal = null;
  client.use(server);
});
afterEach(() => {
  client.eject(server);
  cleanup();
});

async function show(group?: string, role: Schemas["UserOut"]["role"] = "admin", language: "en" | "zh-CN" = "en") {
  await showTexts(language);
  const queryClient = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  queryClient.setQueryData(me.queryKey, {
    ...ADA,
    role,
    has_password: true,
    provider_account: null,
    has_second_factor: false,
    permissions: [],
  });
  const root = createRootRoute();
  const app = createRoute({ getParentRoute: () => root, id: "app", component: Outlet });
  const routes = [
    createRoute({ getParentRoute: () => app, path: "/settings", component: Groups }),
    createRoute({ getParentRoute: () => app, path: "/docs/$" }),
  ];
  const router = createRouter({
    routeTree: root.addChildren([app.addChildren(routes)]),
    history: createMemoryHistory({ initialEntries: [`/settings?tab=groups${group ? `&group=${group}` : ""}`] }),
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return router;
}

test("the list says who chooses the members of each group, and opens one", async () => {
  await show();
  expect(within(await screen.findByRole("row", { name: /vision-team/ })).getByText("Administrators")).toBeVisible();
  expect(within(screen.getByRole("row", { name: /lab-people/ })).getByText("lab-people")).toBeVisible();
  expect(within(screen.getByRole("row", { name: /sight/ })).getByText("Lab Sight · managed by SCIM")).toBeVisible();
  expect(screen.queryByTestId("group")).toBeNull();
  fireEvent.click(screen.getByRole("link", { name: "vision-team" }));
  const table = await screen.findByTestId("group-members");
  expect(within(table).getByText("grace")).toBeVisible();
  expect(scrolled).toHaveBeenCalledOnce();
});

test.each(["vision-team", "two words"])("an administrator creates a group unless there is one: %s", async (name) => {
  const router = await show();
  const form = await screen.findByTestId("group-form");
  await screen.findByTestId("groups");
  const create = within(form).getByRole("button", { name: "Create group" });
  fireEvent.change(within(form).getByLabelText("Name"), { target: { value: name } });
  if (name === "vision-team") {
    expect(within(form).getByText("There is already a group of this name.")).toBeVisible();
    expect(create).toBeDisabled();
    return;
  }
  fireEvent.change(within(form).getByLabelText("Provider's group"), { target: { value: " lab-speech " } });
  fireEvent.click(create);
  await waitFor(() => expect(router.state.location.search).toMatchObject({ group: name }));
  expect(sent.get("PUT /api/v1/groups/two%20words")).toEqual({ provider_group: "lab-speech" });
});

test.each([
  ["en", "User", "Add member", "Remove"],
  ["zh-CN", "用户", "添加成员", "移除"],
] as const)("an administrator adds and removes members (%s)", async (language, user, add, remove) => {
  await show("vision-team", "admin", language);
  await screen.findByText("grace");
  fireEvent.click(screen.getByRole("combobox", { name: user }));
  // Neither who is in it already nor whose account is disabled.
  await waitFor(() => expect(screen.getAllByRole("option").map((it) => it.textContent)).toEqual(["ben"]));
  fireEvent.click(screen.getByRole("option", { name: "ben" }));
  fireEvent.click(screen.getByRole("button", { name: add }));
  await waitFor(() => expect(sent.has("PUT /api/v1/groups/vision-team/members/ben")).toBe(true));
  fireEvent.click(screen.getAllByRole("button", { name: remove })[1] as HTMLElement);
  fireEvent.click(within(await screen.findByRole("dialog")).getByRole("button", { name: remove }));
  await waitFor(() => expect(sent.has("DELETE /api/v1/groups/vision-team/members/grace")).toBe(true));
});

test("deleting a group says what it takes away, and closes it", async () => {
  const router = await show("vision-team");
  fireEvent.click(await screen.findByRole("button", { name: "Delete" }));
  const dialog = await screen.findByRole("dialog", { name: "Delete vision-team?" });
  expect(within(dialog).getByText(/has 2 members and is removed from all projects/)).toBeVisible();
  fireEvent.click(within(dialog).getByRole("button", { name: "Delete" }));
  await waitFor(() => expect(router.state.location.search).toEqual({ tab: "groups" }));
  expect(sent.has("DELETE /api/v1/groups/vision-team")).toBe(true);
});

test("what the provider fills is not changed here, and administrators can take it over", async () => {
  await show("lab");
  expect(await screen.findByText(/Its members are those of lab-people at the OpenID provider/)).toBeVisible();
  await screen.findByText("grace");
  expect(screen.queryByTestId("group-member-form")).toBeNull();
  expect(screen.queryByRole("button", { name: "Remove" })).toBeNull();
  refusal = { code: "groups.filled_by_scim", message: "The identity provider fills the group lab by SCIM.", hint: "H" };
  fireEvent.click(screen.getByRole("button", { name: "Let administrators choose" }));
  expect(await screen.findByText("The identity provider fills the group lab by SCIM.")).toBeVisible();
  expect(sent.get("PUT /api/v1/groups/lab")).toEqual({ provider_group: null });
});

test("what SCIM manages is not changed here, and may come back once it is deleted", async () => {
  await show("sight");
  expect(await screen.findByText(/fills this group from Lab Sight by SCIM/)).toBeVisible();
  await screen.findByText("grace");
  expect(screen.queryByTestId("group-member-form")).toBeNull();
  expect(screen.queryByRole("button", { name: "Let administrators choose" })).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Delete" }));
  expect(await screen.findByText(/may create the group again/)).toBeVisible();
});

test.each(["member", "viewer"] as const)("a %s sees groups and changes nothing", async (role) => {
  await show("vision-team", role);
  await screen.findByText("grace");
  expect(screen.queryByTestId("group-form")).toBeNull();
  expect(screen.queryByTestId("group-member-form")).toBeNull();
  for (const name of ["Delete", "Remove"]) expect(screen.queryByRole("button", { name })).toBeNull();
});

test("an address of a group that is not there says so", async () => {
  await show("nobody");
  expect(await screen.findByText("There is no group 'nobody'.")).toBeVisible();
  expect(screen.queryByRole("button", { name: "Delete" })).toBeNull();
});
