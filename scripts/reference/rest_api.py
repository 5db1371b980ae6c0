"""docs/reference/rest-api.md, from the routes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from muster_server.api.http.guard import Operation
from muster_server.api.http.openapi import describe
from muster_server.app import create_app
from muster_server.settings import Settings

HEAD = """\
# The REST service

JSON in, JSON out. The full description of every field is `/openapi.json` of a running server, and
`/docs` is a list like this one; both need you to be signed in.

**Who you are.** Send `Authorization: Bearer mst_usr_…` with a token from `muster token create` or
from the dashboard. Browsers use the session cookie. Tokens are never taken from an address.

**What you may do.** Each operation needs one permission, and everything not listed is refused.

| permission | held by |
| --- | --- |
| public | anybody |
| metrics | viewer, member, admin, and tokens of the role `metrics`, which have no other |
| self | whoever is signed in, about themselves |
| view | viewer, member, admin |
| submit | member, admin |
| admin | admin |
| agent, join | agents with their credential; join also accepts a join token |

**Lists** answer `{"items": […], "next": cursor}`. Send the cursor back as `cursor`, together with
the same other parameters, until `next` is null.

**Numbers** that are not finite travel as `"NaN"`, `"Infinity"` and `"-Infinity"`. Requests are
strict: an unknown field or parameter is an error, and text is not turned into a number. `HEAD`
answers wherever `GET` does.

**Errors** have one form, with a [stable code](errors.md):

```json
{"error": {"code": "experiments.not_found", "message": "There is no experiment 7.", "hint": null,
           "fields": [], "request_id": "…"}}
```

Any route may also answer 401, 403, 422, 429 and 503. 429 and 503 carry `Retry-After`.

**Whose it is.** Members change their own experiments; administrators change all of them. Everybody
who may view may look at all of them. Only [members of a project](../guides/projects.md) submit to it or fork
into it, change what is theirs in it and see its secrets; its maintainers say who they are.

**Sending twice.** Submitting, forking, continuing and bulk operations take an `Idempotency-Key`
header: the same key with the same body changes nothing and is answered alike. Keys are kept for a day.
"""
TITLES = {
    "health": "Health",
    "auth": "Signing in",
    "tokens": "Tokens",
    "users": "Users and audit",
    "catalog": "Catalog",
    "cluster": "Cluster",
    "experiments": "Experiments",
    "operations": "Operations on experiments",
    "projects": "Projects and pools",
    "members": "Members of projects, and groups",
    "views": "Saved views",
    "panels": "Panels of the dashboard",
    "reports": "Reports",
    "secrets": "Secrets",
    "notifications": "Notifications",
    "scaling": "Scaling reports",
    "trials": "Trials",
    "metrics": "Metrics",
    "logs": "Logs",
    "outputs": "Outputs",
    "media": "Media",
    "checkpoints": "Checkpoints of all trials",
    "models": "Models",
    "deployments": "Deployments",
    "code": "Code bundles",
    "live": "Live hints",
    "description": "Description",
    "agents": "Agents",
    "mlflow": "MLflow's tracking API",
    "mcp": "Assistants",
    "scim": "SCIM 2.0",
    "dashboard": "Dashboard",
}
LIVE = """
`live` is a WebSocket that says *that* something changed; you then ask by REST what. A browser's
session cookie opens it; with a token, make a ticket first and open `/api/v1/live?ticket=…` within a
minute. Messages are JSON objects:

| direction | message |
| --- | --- |
| to the server | `{"subscribe": ["cluster", "experiment:12", "trial:57", "trial:57:logs"]}`, `{"unsubscribe": […]}`, `{"pong": n}` |
| first | `{"hello": {"server": version, "resumed": false, "degraded": bool}}` |
| a hint | `{"topic": "trial:57", "seq": n}`, at most two a second and topic |
| others | `{"state": "ok"}` or `"degraded"` (hints come from a timer), `{"error": {…}}`, `{"ping": n}` |
"""
AGENTS = """
For agents only; the messages are in `trainer/muster/wire`.
"""
MLFLOW = """
For MLflow's clients outside a job; see the [guide](../guides/mlflow.md#from-outside-a-job). Errors have
MLflow's shape: `{"error_code": …, "message": …}`.
"""
SCIM = """
For the provisioning client of an identity provider; see the
[guide](../guides/sign-in.md#provision-accounts-with-scim). Users and groups, and errors, have the shapes of RFC
7643 and 7644.
"""
NOTES = {"live": LIVE, "agents": AGENTS, "mlflow": MLFLOW, "scim": SCIM}
OTHERS = {
    "live": ("live", "The live channel"),
    "open_tunnel": (
        "trials",
        "A command, a shell or a port inside a running job; see muster.wire.tunnels",
    ),
    "agent_tunnel": ("agents", "The agent's end of a tunnel into a job"),
    "mlflow_read": ("mlflow", "Experiments, runs, models and the history of metrics"),
    "mlflow_search": ("mlflow", "Searches for `runs`, `experiments` and `logged-models`"),
    "mlflow_log_batch": ("mlflow", "Stores values, params and tags"),
    "mlflow_log_metric": ("mlflow", "Stores one value"),
    "mlflow_write": ("mlflow", "Everything else that MLflow's clients log or change"),
    "mlflow_list_artifacts": ("mlflow", "The artifacts in a folder of a run or model"),
    "mlflow_get_artifact": ("mlflow", "An artifact"),
    "mlflow_put_artifact": ("mlflow", "Stores an artifact"),
    "mlflow_delete_artifact": ("mlflow", "Deletes an artifact, or a folder of them"),
    "mlflow_elsewhere": ("mlflow", "The refusal of the rest of MLflow's API"),
    "scim_read": ("scim", "`Users`, `Groups`, `Schemas`, `ResourceTypes`, `ServiceProviderConfig`"),
    "scim_write": ("scim", "Creates, changes, deletes and searches `Users` and `Groups`"),
    "call_tools": ("mcp", "The tools for assistants, by the Model Context Protocol"),
    "dashboard": ("dashboard", "The dashboard's files, for every address that is no route"),
}
"""Operations that are not in the OpenAPI document → (section, what they do)."""


@functools.cache
def read_api() -> tuple[list[Operation], dict[str, Any]]:
    """The server's operations, and the OpenAPI document, which lacks those of OTHERS."""
    app = create_app(Settings(_env_file=None))
    return app.state.operations, describe(app)


def render() -> str:
    operations, document = read_api()
    sections: dict[str, list[str]] = {name: [] for name in TITLES}
    described = set()
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            described.add(one["operationId"])
            sections[one["tags"][0]].append(_row(method, path, one))
    for operation in operations:
        if operation.id not in described:
            section, text = OTHERS[operation.id]
            methods = {"GET"} & operation.methods or operation.methods
            method = "WS" if operation.kind == "websocket" else ", ".join(sorted(methods))
            sections[section].append(
                f"| `{method} {operation.path}` | `{operation.id}` | {operation.permission} "
                f"| {text}. |  |  |"
            )
    return HEAD + "".join(_section(name, rows) for name, rows in sections.items() if rows)


def _section(name: str, rows: list[str]) -> str:
    head = (
        "| route | operation | permission | what it does | takes | answers |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    return f"\n## {TITLES[name]}\n{NOTES.get(name, '')}\n{head}" + "\n".join(rows) + "\n"


def _row(method: str, path: str, one: dict[str, Any]) -> str:
    cells = [
        f"`{method.upper()} {path}`",
        f"`{one['operationId']}`",
        one["x-permission"],
        _what(one),
        ", ".join(_takes(one)),
        ", ".join(_answers(one)),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _what(one: dict[str, Any]) -> str:
    """The summary, and the description's first paragraph; not a summary made from the name."""
    summary = one["summary"].rstrip(".")
    if summary == one["operationId"].replace("_", " ").title():
        summary = ""
    text = " ".join(one.get("description", "").split("\n\n")[0].split())
    if not summary and not text:
        summary = one["operationId"].replace("_", " ").capitalize()
    return f"{summary}. {text}".strip() if summary else text


def _takes(one: dict[str, Any]) -> Iterator[str]:
    for media, content in one.get("requestBody", {}).get("content", {}).items():
        yield _schema(media, content)
    for parameter in one.get("parameters", []):
        if parameter["in"] == "query":
            yield f"`?{parameter['name']}`"
        elif parameter["in"] == "header":
            yield f"`{parameter['name']}` header"


def _answers(one: dict[str, Any]) -> Iterator[str]:
    for status, response in one["responses"].items():
        if status >= "400":
            continue
        content = response.get("content") or {}
        for media, schema in content.items():
            yield f"{status} {_schema(media, schema)}"
        if not content:
            yield f"{status}, no body"


def _schema(media: str, content: dict[str, Any]) -> str:
    if media != "application/json":
        return media
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    page = re.fullmatch(r"Page_(\w+)_", name)
    return f"page of `{page[1]}`" if page else f"`{name}`" if name else "JSON"
