"""Liveness and readiness."""

from __future__ import annotations


def test_healthz_answers_without_credentials(client):
    reply = client.get("/healthz")
    assert reply.status_code == 200
    assert reply.json() == {"status": "ok"}


def test_unknown_path_is_refused_without_credentials(client):
    assert client.get("/api/v1/nothing").status_code == 401


def test_unknown_path_is_404_for_a_user(viewer_client):
    reply = viewer_client.get("/api/v1/nothing")
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "request.no_such_path"
