"""No value of any parameter makes the server fail: not at the edge of the calendar, not with NUL."""

from urllib.parse import quote

import pytest

from support.data import add_attempt, add_experiment, add_trial

TIMES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00+23:59",
    "0001-01-01",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-12:00",
    "9999-12-31T23:59:59-23:59",
    "1969-12-31T23:59:59Z",
    "-62135596800",
    "253402300799",
    "1e300",
)
NUMBERS = ("0", "9223372036854775807", "1" + "0" * 40, "nan", "1e308")
TEXTS = ("\x00", "\x1b'\"\\%", "")
LONG_POLL = frozenset({"agent_assignments"})


def edges(schema):
    """Values for a parameter: those of its kind, and those of every other that it might take."""
    kinds = [schema, *schema.get("anyOf", ()), schema.get("items", {})]
    kinds += [kind.get("items", {}) for kind in kinds]
    names = {kind.get("type") for kind in kinds}
    values = list(TEXTS)
    if names & {"integer", "number"}:
        values += NUMBERS
    if any(kind.get("format") == "date-time" for kind in kinds):
        values += TIMES
    if "string" in names:
        values += TIMES[2:4]  # a text may be read as a time further in
    return values


@pytest.fixture
def trial(database):
    """So that routes have something to find, and look at what they were given."""
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        add_attempt(session, trial)
        return trial.id


def requests(description):
    """(method, address) of each route with each edge value of each of its parameters."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if operation["operationId"] in LONG_POLL:
                continue
            parameters = [
                p for p in operation.get("parameters", ()) if p["in"] in ("path", "query")
            ]
            for chosen in parameters:
                for value in edges(chosen["schema"]):
                    yield method, address(path, parameters, chosen, value)


def address(path, parameters, chosen, value):
    query = []
    for parameter in parameters:
        name, is_chosen = parameter["name"], parameter is chosen
        if parameter["in"] == "path":
            text = quote(value, safe="") or "%20" if is_chosen else "1"
            path = path.replace("{" + name + "}", text)
        elif is_chosen:
            query.append(f"{name}={quote(value, safe='')}")
        elif parameter.get("required"):
            query.append(f"{name}=1")
    return path + ("?" + "&".join(query) if query else "")


def test_no_value_of_a_parameter_makes_the_server_fail(admin_client, trial):
    failed = []
    for method, url in requests(admin_client.get("/openapi.json").json()):
        reply = admin_client.request(method, url)
        if reply.status_code >= 500 or ("%00" in url and reply.status_code not in (403, 404, 422)):
            failed.append((reply.status_code, method, url[:160]))
    assert failed == [], "\n".join(map(str, failed))


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/v1/experiments?label=%00", "label"),
        ("/api/v1/experiments?q=a%00b", "q"),
        ("/api/v1/projects/%00", "name"),
        ("/api/v1/nodes/a%00b", "node_id"),
    ],
)
def test_what_no_text_can_hold_is_named(admin_client, path, field):
    reply = admin_client.get(path)
    assert reply.status_code == 422, reply.text
    (problem,) = reply.json()["error"]["fields"]
    assert problem["path"] == field
    assert "\\x00" in problem["message"]


@pytest.mark.parametrize("time", [time for time in TIMES[:7] if "T" in time])
@pytest.mark.parametrize("name", ["since", "until", "time"])
def test_a_time_at_the_edge_of_the_calendar_is_named_with_its_value(
    member_client, trial, name, time
):
    reply = member_client.get(f"/api/v1/trials/{trial}/logs", params={name: time})
    assert reply.status_code == 422, reply.text
    (problem,) = reply.json()["error"]["fields"]
    assert problem["path"] == name
    assert time[:4] in problem["message"]


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_deadline_there_is_refused_too(admin_client, time):
    document = f"name: t\nentrypoint: -m t\nbudget: {{deadline: '{time}'}}\n"
    for path, body in (
        ("/api/v1/experiments", {"document": document}),
        ("/api/v1/experiments:preview", {"document": document}),
        ("/api/v1/projects", {"name": "p", "budget": {"deadline": time}}),
    ):
        reply = admin_client.post(path, json=body)
        assert reply.status_code in (200, 422), reply.text
        error = reply.json().get("error") or reply.json()
        text = str(error)
        assert "budget.deadline" in text
        assert time[:4] in text
