import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test } from "vitest";

import { client, type Schemas } from "../../api/client";
import { type Health, me, type Project } from "../../api/queries";
import { showTexts } from "../../testing/texts";
import { JoinTokens } from "./access/JoinTokens";
import { ProjectMembers } from "./access/ProjectMembers";
import { NotificationRuleDialog } from "./notifications/NotificationRuleDialog";
import { NotificationTargetDialog } from "./notifications/NotificationTargetDialog";
import { Password } from "./Profile";
import { detailText, subjectOf } from "./auditText";
import { bodyOf, countsOf, fresh, isReady } from "./providerForm";
import { ProjectGuards, ProjectRetention } from "./ProjectDialogs";
import { Secrets } from "./Secrets";
import { SystemHealth } from "./SystemHealth";
import { agentVersions, partsOf } from "./systemParts";

/** What was sent, by path; answered with what is set here. */
const sent = new Map<string, unknown>();
let thisMachineOnly = true;
const WELL: Health = {
  status: "ready",
  database: "ok",
  redis: "ok",
  controller: "ok",
  failing_loop: null,
  worker: "ok",
};
let ready = WELL;
let members: Schemas["ProjectMemberOut"][] = [];
const PROJECT: Project = {
  id: 1,
  name: "vision",
  weight: 1,
  visibility: "all",
  log_retention_days: null,
  metric_retention_days: null,
  guards: "",
  guards_explained: [],
  submission: "members",
  quotas: [],
  budget: null,
  spending: { slot_hours: 0, cost: 0, cost_per_hour: 0, slots_held: 0, currency: "USD" },
  counted_since: "2026-01-02T03:04:05Z",
  num_experiments: 0,
  num_experiments_active: 0,
  exhausted_reason: "",
  exhausted_parts: [],
  created_at: "2026-01-02T03:04:05Z",
};
const words = (en: string) => ({ en, zh: en });
const CATALOG = {
  search_methods: [],
  notified_events: [
    { kind: "trial.failed", title: words("Trial failed"), when: "", is_cluster: false },
    { kind: "experiment.ended", title: words("Experiment ended"), when: "", is_cluster: false },
    { kind: "trial.stuck", title: words("Trial stuck"), when: "", is_cluster: false },
    { kind: "node.lost", title: words("Node lost"), when: "", is_cluster: true },
  ],
  providers: [],
};
const server = {
  onRequest: async ({ request }: { request: Request }) => {
    if (request.url.endsWith("/readyz")) return Response.json(ready, { status: ready.status === "ready" ? 200 : 503 });
    if (request.url.endsWith("/catalog")) return Response.json(CATALOG);
    if (request.url.includes("/members?")) return Response.json({ items: members, next: null });
    if (request.method === "GET") return Response.json({ items: [], next: null });
    const path = new URL(request.url).pathname;
    sent.set(path, await request.json());
    if (request.method === "PUT") return Response.json({ name: decodeURIComponent(path.split("/").at(-1) ?? "") });
    if (path.endsWith("/password")) return new Response(null, { status: 204 });
    return Response.json(
      { command: "MUSTER_AGENT_SERVER_URL=http://… muster-agent run", this_machine_only: thisMachineOnly },
      { status: 201 },
    );
  },
};
beforeEach(() => client.use(server));
afterEach(() => {
  client.eject(server);
  cleanup();
});

const show = async (language: "en" | "zh-CN", node: React.ReactNode, role: Schemas["UserOut"]["role"] = "admin") => {
  await showTexts(language);
  const queries = new QueryClient();
  queries.setQueryData(me.queryKey, {
    id: 1,
    username: "ada",
    role,
    has_password: true,
    provider_account: null,
    has_second_factor: false,
    permissions: [],
  });
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={queries}>{node}</QueryClientProvider>
    </MantineProvider>,
  );
};

test.each([
  [
    "en",
    "Revoke my API tokens",
    /^Current password/,
    /^New password/,
    /^Repeat password/,
    "Change password",
    "Your API tokens were revoked.",
  ],
  ["zh-CN", "撤销我的 API 令牌", /^当前密码/, /^新密码/, /^再次输入密码/, "修改密码", "你的 API 令牌已撤销。"],
] as const)(
  "a changed password revokes API tokens unless told not to (%s)",
  async (language, revoke, current, next, again, change, done) => {
    await show(language, <Password />);
    const fill = (): void => {
      for (const [label, value] of [
        [current, "the old password"],
        [next, "a tolerable passphrase"],
        [again, "a tolerable passphrase"],
      ] as const) {
        fireEvent.change(screen.getByLabelText(label), { target: { value } });
      }
      fireEvent.click(screen.getByRole("button", { name: change }));
    };
    fill();
    expect(await screen.findByText(done)).toBeInTheDocument();
    expect(sent.get("/api/v1/auth/password")).toMatchObject({ revoke_tokens: true });
    fireEvent.click(screen.getByLabelText(revoke));
    fill();
    await waitFor(() => expect(sent.get("/api/v1/auth/password")).toMatchObject({ revoke_tokens: false }));
    await waitFor(() => expect(screen.queryByText(done)).toBeNull());
  },
);

test.each([
  ["en", "Create join token", /works only on the server itself/],
  ["zh-CN", "创建加入令牌", /只能在服务器本机上使用/],
] as const)("a command that no other machine can use says so (%s)", async (language, create, warning) => {
  for (const alone of [true, false]) {
    thisMachineOnly = alone;
    await show(language, <JoinTokens />);
    fireEvent.click(screen.getByRole("button", { name: create }));
    expect(await screen.findByText(/muster-agent run/)).toBeInTheDocument();
    expect(screen.queryAllByText(warning)).toHaveLength(alone ? 1 : 0);
    cleanup();
  }
});

test.each([
  ["en", "Name", "Value", "Set", undefined],
  ["zh-CN", "名称", "值", "设置", "vision"],
] as const)("the value of a secret is sent and gone (%s)", async (language, name, value, set, project) => {
  await show(language, project === undefined ? <Secrets /> : <Secrets project={project} />);
  fireEvent.change(screen.getByLabelText(name), { target: { value: "hf_token" } });
  fireEvent.change(screen.getByLabelText(value), { target: { value: "canary-0123456789\nsecond" } });
  fireEvent.click(screen.getByRole("button", { name: set }));
  expect(await screen.findByText("environment: {secrets: [HF_TOKEN]}")).toBeInTheDocument();
  const path = project === undefined ? "/api/v1/secrets/HF_TOKEN" : "/api/v1/projects/vision/secrets/HF_TOKEN";
  expect(sent.get(path)).toEqual({ value: "canary-0123456789\nsecond" });
  expect(screen.getByLabelText(value)).toHaveValue("");
  expect(document.body.textContent).not.toContain("canary");
});

test("a rule names events and the inbox, and one that would notify nobody cannot be created", async () => {
  await show("en", <NotificationRuleDialog project={undefined} rule={null} onClose={() => undefined} />);
  fireEvent.click(await screen.findByLabelText("Trial stuck"));
  fireEvent.click(screen.getByLabelText("Inbox"));
  const create = screen.getByRole("button", { name: "Create" });
  expect((create as HTMLButtonElement).disabled).toBe(true);
  fireEvent.click(screen.getByLabelText("Inbox"));
  fireEvent.click(create);
  await waitFor(() => expect(sent.get("/api/v1/notifications/rules")).toBeDefined());
  expect(sent.get("/api/v1/notifications/rules")).toEqual({
    kinds: ["trial.failed", "experiment.ended", "trial.stuck"],
    whose: "mine",
    project: null,
    owner_project: null,
    inbox: true,
    is_enabled: true,
    target_ids: [],
  });
});

test("a target goes to the server whole, and only once", async () => {
  const made: unknown[] = [];
  await show(
    "en",
    <NotificationTargetDialog project="vision" onMade={(one) => made.push(one)} onClose={() => undefined} />,
  );
  fireEvent.click(await screen.findByText("Webhook"));
  fireEvent.change(screen.getByLabelText(/^Name/), { target: { value: " hook " } });
  fireEvent.change(screen.getByLabelText(/^URL/), { target: { value: "https://example.com/x" } });
  fireEvent.click(screen.getByRole("button", { name: "Create" }));
  await waitFor(() => expect(made).toHaveLength(1));
  expect(sent.get("/api/v1/notifications/targets")).toEqual({
    name: "hook",
    project: "vision",
    config: { kind: "webhook", url: "https://example.com/x", secret: null },
  });
});

test("what is down says what that means, also when the server is not ready", async () => {
  ready = { ...WELL, status: "not_ready", database: "disk_full", controller: "failing", failing_loop: "search" };
  await show("en", <SystemHealth />);
  const row = async (name: RegExp) => screen.findByRole("row", { name });
  expect(await row(/^Database/)).toHaveTextContent("Disk full");
  expect(await row(/^Controller/)).toHaveTextContent("Nothing is scheduled or restarted");
  expect(await row(/^Controller/)).toHaveTextContent("The latest round failed in search.");
  expect(await row(/^Redis/)).toHaveTextContent("Updates open pages at once");
  ready = WELL;
});

test("a Redis that takes no writes holds back background jobs, not pages", async () => {
  ready = { ...WELL, redis: "refuses_writes" };
  await show("en", <SystemHealth />);
  const row = await screen.findByRole("row", { name: /^Redis/ });
  expect(row).toHaveTextContent("Refuses writes");
  expect(row).toHaveTextContent("Background jobs wait. Pages still update at once.");
  ready = WELL;
});

test("a part that nobody configured is no problem", () => {
  const tones = (health: Partial<Health>) => partsOf({ ...WELL, ...health }).map(({ tone }) => tone);
  expect(tones({})).toEqual(["ok", "ok", "ok", "ok"]);
  expect(tones({ redis: "not_configured" })).toEqual(["ok", "ok", "ok", "idle"]);
  expect(tones({ controller: "absent", worker: "absent", redis: "unreachable" })).toEqual([
    "ok",
    "bad",
    "warn",
    "warn",
  ]);
});

test("agents are counted by version, without nodes that are removed", () => {
  const node = (agent_version: string, state = "ONLINE") => ({ agent_version, state: state as "ONLINE" });
  expect(agentVersions([node("0.9.0"), node("0.10.0"), node("0.9.0"), node("0.1.0", "REMOVED")])).toEqual([
    { version: "0.10.0", count: 1 },
    { version: "0.9.0", count: 2 },
  ]);
});

test("entries of the audit log lead to what they are about", () => {
  expect(subjectOf("experiment:7")).toEqual({ kind: "experiment", id: "7" });
  expect(subjectOf("trial:12")).toEqual({ kind: "trial", id: "12" });
  for (const other of ["experiment:7,8", "user:ada", "node:experiment:7", ""]) expect(subjectOf(other).kind).toBe("");
  expect(detailText({ role: "viewer", days: 90, none: null, labels: { a: "b" } })).toBe(
    'role=viewer days=90 labels={"a":"b"}',
  );
});

test("the form of a provider sends what was filled in, and no empty option", () => {
  const option = { kind: "text" as const, default: "", expected: null };
  const known = [
    ...["server_url", "folder", "agent"].map((name) => ({ ...option, name, is_required: true })),
    { ...option, name: "qos", is_required: false },
  ];
  const options = {
    server_url: " http://10.0.0.5:8470 ",
    folder: "/shared",
    agent: "/opt/muster-agent",
    qos: " ",
    queue: "of another kind",
  };
  const draft = { ...fresh, name: "gpu", hours: 0.5, idleMinutes: 2, min: 1, maxSlotHours: 12, options };
  expect(isReady(draft, known)).toBe(true);
  expect(isReady(draft, [])).toBe(false);
  expect(isReady({ ...draft, options: { ...options, agent: "" } }, known)).toBe(false);
  expect(isReady({ ...draft, slots: "" }, known)).toBe(false);
  expect(bodyOf({ ...draft, exclusive: true }, known)).toEqual({
    kind: "slurm",
    slots: 1,
    slot_type: "cpu",
    min_pilots: 0,
    max_pilots: 4,
    walltime_s: 1800,
    idle_s: 120,
    exclusive: true,
    max_slot_hours: 12,
    max_cost: null,
    restart_count: false,
    options: { server_url: "http://10.0.0.5:8470", folder: "/shared", agent: "/opt/muster-agent" },
  });
  expect(countsOf({ wanted: 1, submitting: 2, pending: 3, starting: 4, up: 5 })).toEqual({
    wanted: 3,
    pending: 3,
    running: 9,
    ending: 0,
  });
});

test.each([
  ["en", "Add member", "Name", "Role of ann", "Remove"],
  ["zh-CN", "添加成员", "名称", "ann 的角色", "移除"],
] as const)("members of a project are shown, added and removed (%s)", async (language, add, name, roleOf, remove) => {
  members = [
    { kind: "user", name: "ann", role: "maintainer", added_at: "2026-01-02T03:04:05Z", added_by: "user:ada" },
    { kind: "group", name: "vision-team", role: "member", added_at: "2026-01-02T03:04:05Z", added_by: "user:ada" },
  ];
  await show(language, <ProjectMembers project={PROJECT} />);
  expect(await screen.findByText("vision-team")).toBeInTheDocument();
  expect(screen.getByRole("combobox", { name: roleOf })).toHaveValue(language === "en" ? "Maintainer" : "维护者");
  expect(screen.getAllByRole("button", { name: remove })).toHaveLength(2);
  fireEvent.change(screen.getByLabelText(name), { target: { value: " ben " } });
  fireEvent.click(screen.getByRole("button", { name: add }));
  const path = "/api/v1/projects/vision/members/users/ben";
  await waitFor(() => expect(sent.get(path)).toEqual({ role: "member" }));
  fireEvent.click(screen.getByTestId("submission"));
  await waitFor(() => expect(sent.get("/api/v1/projects/vision")).toMatchObject({ submission: "all" }));
  fireEvent.click(screen.getByTestId("visibility"));
  await waitFor(() => expect(sent.get("/api/v1/projects/vision")).toMatchObject({ visibility: "members" }));
});

test.each([
  ["en", "Keep logs for (days)", "Save"],
  ["zh-CN", "日志保留天数", "保存"],
] as const)(
  "the retention of a project is set, and left to the server where empty (%s)",
  async (language, logs, save) => {
    const project = { ...PROJECT, log_retention_days: 7, metric_retention_days: 90 };
    const saved: unknown[] = [];
    const dialog = (
      <ProjectRetention
        project={project}
        pending={false}
        error={null}
        onSave={(body) => saved.push(body)}
        onClose={() => undefined}
      />
    );
    await show(language, dialog);
    const field = await screen.findByLabelText(logs);
    fireEvent.change(field, { target: { value: "30" } });
    fireEvent.click(screen.getByRole("button", { name: save }));
    fireEvent.change(field, { target: { value: "" } });
    fireEvent.click(screen.getByRole("button", { name: save }));
    expect(saved).toEqual([
      { log_retention_days: 30, metric_retention_days: 90 },
      { log_retention_days: null, metric_retention_days: 90 },
    ]);
  },
);

test.each([
  ["en", "Guards", "Save"],
  ["zh-CN", "守护规则", "保存"],
] as const)("the guards of a project are set (%s)", async (language, label, save) => {
  const saved: unknown[] = [];
  const dialog = (
    <ProjectGuards
      project={PROJECT}
      pending={false}
      error={null}
      onSave={(body) => saved.push(body)}
      onClose={() => undefined}
    />
  );
  await show(language, dialog);
  const guards = "- {no_step_for_min: 30, action: notify}";
  fireEvent.change(await screen.findByLabelText(label), { target: { value: guards } });
  fireEvent.click(screen.getByRole("button", { name: save }));
  expect(saved).toEqual([{ guards }]);
});

test.each([
  ["viewer", "ada", false],
  ["member", "ann", false],
  ["member", "ada", true],
] as const)("a %s changes members where %s is the maintainer: %s", async (role, maintainer, mayChange) => {
  members = [
    { kind: "user", name: maintainer, role: "maintainer", added_at: "2026-01-02T03:04:05Z", added_by: "user:root" },
  ];
  await show("en", <ProjectMembers project={PROJECT} />, role);
  expect(await screen.findByText(maintainer)).toBeInTheDocument();
  expect(screen.queryAllByTestId("member-form")).toHaveLength(mayChange ? 1 : 0);
  expect(screen.queryByTestId("submission")).toBeNull();
});
