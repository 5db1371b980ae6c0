"""The files of the dashboard, and nothing but those."""

from __future__ import annotations

import functools

import pytest

from muster_server.api import dashboard

INDEX = "<!doctype html><title>Muster</title>" + "x" * 2000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "assets" / "index-B3x9.js").write_text("console.log(1)")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "assets" / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


@pytest.fixture
def app(settings, folder, monkeypatch):
    from muster_server import app as module

    route = functools.partial(dashboard.dashboard_route, folder)
    monkeypatch.setattr(module, "dashboard_route", route)
    return module.create_app(settings)


@pytest.mark.parametrize("path", ["/", "/sign-in", "/experiments/12/trials", "/index.html"])
def test_pages_get_the_index_and_ask_again_next_time(client, path):
    reply = client.get(path)
    assert (reply.status_code, reply.text) == (200, INDEX)
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'"
    )
    assert "unsafe" not in reply.headers["content-security-policy"]
    again = client.get(path, headers={"If-None-Match": reply.headers["etag"]})
    assert again.status_code == 304


def test_the_viewer_of_traces_may_style_itself_and_runs_no_scripts_but_ours(client):
    policy = client.get("/viewer/open.html").headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["script-src"] == "'self' 'wasm-unsafe-eval'"
    assert rules["style-src"] == "'self' 'unsafe-inline'"
    assert rules["connect-src"] == "'self' blob:"
    assert rules["default-src"] == rules["frame-ancestors"] == "'none'"


def test_hashed_assets_are_kept_for_ever(client):
    reply = client.get("/assets/index-B3x9.js")
    assert reply.status_code == 200
    assert "immutable" in reply.headers["cache-control"]
    assert reply.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    "path",
    [
        "/assets/index-gone.js",
        "/favicon.ico",
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/..%5csecret.txt",
        "/assets/link.txt",
        "//etc/passwd.txt",
        "/assets/index-B3x9.js%00.png",
        "/static/../secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
    ],
)
def test_nothing_else_is_served(client, path):
    reply = client.get(path)
    assert reply.status_code == 404
    assert "secret" not in reply.text.removeprefix(path)


def test_a_new_build_is_noticed(client, folder):
    client.get("/")
    (folder / "assets" / "new.js").write_text("2")
    import os

    (folder / "index.html").write_text("new")
    os.utime(folder / "index.html", (1, 1))
    assert client.get("/").text == "new"
    assert client.get("/assets/new.js").status_code == 200


def test_mistyped_service_paths_are_not_pages(viewer_client):
    for path in ("/api", "/api/v2/experiments", "/agent/v1/nothing", "/agent"):
        assert viewer_client.get(path).status_code == 404
        assert "doctype" not in viewer_client.get(path).text


def test_without_a_build_it_says_how_to_make_one(client, folder):
    (folder / "index.html").unlink()
    reply = client.get("/")
    assert reply.status_code == 404
    assert "npm run build" in reply.text
