"""A server below a path, as two kinds of proxies ask it: with the path, and without it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from starlette.applications import Starlette

from muster_server import clock
from muster_server.api.dashboard import dashboard_route
from muster_server.app import create_app
from muster_server.services.core.accounts import auth
from muster_server.settings import Settings
from support.client import make_client, running
from support.live import LiveClient, serving

HOST = {"Host": "lab.example"}
PERSON = {"username": "ada", "password": "a tolerable passphrase"}


@pytest.fixture
def settings(settings, request):
    url = getattr(request, "param", "https://lab.example/muster")
    return settings.model_copy(update={"public_url": url})


@pytest.fixture(params=["/muster", ""], ids=["passed on", "stripped"])
def below(request, connect, make_user_token):
    """Somebody's requests through a proxy."""
    client = connect(token=make_user_token("admin"))

    def ask(method, path, **more):
        headers = {**HOST, **more.pop("headers", {})}
        return client.request(method, request.param + path, headers=headers, **more)

    return ask


def set_up(database, client, path="/muster/api/v1/auth/setup"):
    with database.transaction() as session:
        token = auth.create_setup_token(session, now=clock.now())
    return client.post(path, json={"token": token, **PERSON}, headers=HOST)


def test_routes_and_probes_answer(below, client):
    assert below("GET", "/api/v1/auth/state").status_code == 200
    assert below("GET", "/healthz").status_code == 200
    assert client.get("/healthz", headers={"Host": "10.0.0.1:8470"}).status_code == 200
    reply = below("GET", "/api/v1/nothing")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "request.no_such_path")
    assert below("GET", "/mlflow/").headers["location"] == "/muster/experiments"


def test_what_only_begins_like_the_prefix_is_not_below_it(client):
    reply = client.get("/musterx/api/v1/auth/state", headers=HOST)
    assert not reply.headers["content-type"].startswith("application/json")


def test_the_description_names_the_prefix(below):
    assert below("GET", "/openapi.json").json()["servers"] == [{"url": "/muster"}]
    assert 'href="openapi.json"' in below("GET", "/docs").text


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ("https://lab.example/muster", "__Secure-muster_sid.muster="),
        ("https://lab.example/ai/muster/", "__Secure-muster_sid.ai.muster="),
        ("http://lab.example/muster", "muster_sid.muster="),
    ],
    indirect=["settings"],
)
def test_a_session_is_for_this_path_alone(settings, start, client, database):
    prefix = settings.path_prefix()
    reply = set_up(database, client, f"{prefix}/api/v1/auth/setup")
    cookie = reply.headers["set-cookie"]
    assert cookie.startswith(start)
    assert f"; path={prefix};" in cookie.lower()
    name, _, secret = cookie.partition(";")[0].partition("=")
    client.cookies.clear()
    # A browser sends the cookies of a Muster at the root along.
    both = {**HOST, "Cookie": f"{name}={secret}; __Host-muster_sid=other; muster_sid=other"}
    assert client.get(f"{prefix}/api/v1/auth/me", headers=both).status_code == 200
    of_the_root = {**HOST, "Cookie": f"__Host-muster_sid={secret}; muster_sid={secret}"}
    assert client.get(f"{prefix}/api/v1/auth/me", headers=of_the_root).status_code == 401
    origin = settings.public_url.partition("/muster")[0].removesuffix("/ai")
    ended = client.post(f"{prefix}/api/v1/auth/logout", headers={**both, "Origin": origin})
    assert f"; path={prefix};" in ended.headers["set-cookie"].lower()


def test_links_and_commands_have_the_prefix(below):
    made = below("POST", "/api/v1/join-tokens", json={}).json()
    assert made["server_url"] == "https://lab.example/muster"
    assert "MUSTER_AGENT_SERVER_URL=https://lab.example/muster " in made["command"]
    begun = below("POST", "/api/v1/auth/device", json={"client": "muster on desk"}).json()
    assert begun["url"].startswith("https://lab.example/muster/device?code=")


def test_the_live_channel_is_there(settings, make_user_token):
    token = make_user_token("viewer")
    with serving(create_app(settings)) as port:
        for prefix in ("/muster", ""):
            live = LiveClient(port, token=token, prefix=prefix)
            assert "hello" in live.receive()
            live.close()


PAGE = '<meta name="base" content="/"><script src="/assets/app-1.js"></script><a href="https://x/">'


@pytest.mark.parametrize(("prefix", "base"), [("", "/"), ("/muster", "/muster/")])
def test_pages_name_their_files_below_the_prefix(tmp_path, prefix, base):
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/app-1.js").write_text('x="/"')
    app = Starlette(routes=[dashboard_route(tmp_path, prefix=prefix)])
    with running(app) as portal, make_client(app, portal) as client:
        for path in ("/", "/experiments/7"):
            reply = client.get(path)
            assert reply.headers["cache-control"] == "no-cache"
            assert reply.text == PAGE.replace('="/', f'="{base}')
        reply = client.get("/assets/app-1.js")
        assert "immutable" in reply.headers["cache-control"]
        assert reply.text == 'x="/"'


@pytest.mark.parametrize(
    "path", ["/api", "/docs/muster", "/a.b", "/a b", "//a", "/a/../b", "/x?y=1", "/x#y"]
)
def test_a_path_that_cannot_be_is_refused(path):
    with pytest.raises(ValidationError, match="public_url"):
        Settings(public_url=f"https://lab.example{path}")


def test_a_path_may_begin_like_one_of_our_own():
    assert Settings(public_url="https://lab.example/apis/").path_prefix() == "/apis"
    assert Settings(public_url="https://lab.example/").path_prefix() == ""


def test_tools_for_assistants_call_the_routes_below_the_prefix(below, make_user_token):
    params = {"name": "cluster", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Authorization": f"Bearer {make_user_token('viewer')}",
        "Accept": "application/json, text/event-stream",
    }
    reply = below("POST", "/mcp", json=body, headers=headers)
    assert "you_may" in reply.json()["result"]["content"][0]["text"]
