"""The description of the service is complete enough to write a client from."""

from __future__ import annotations

import json
import re

import pytest

from muster_server.api.http.openapi import describe
from support.client import plain_app

DOCUMENT = describe(plain_app())
METHODS = {"get", "put", "post", "delete", "patch", "head"}
OPERATIONS = [
    (f"{method.upper()} {path}", description)
    for path, methods in DOCUMENT["paths"].items()
    for method, description in methods.items()
    if method in METHODS
]


@pytest.mark.parametrize(("name", "description"), OPERATIONS, ids=[name for name, _ in OPERATIONS])
def test_every_operation_is_described(name, description):
    assert description["summary"]
    assert description["tags"]
    assert "__" not in description["operationId"], "an explicit id, not one made from the path"
    assert description["x-permission"]
    is_public = description["x-permission"] == "public"
    assert (description["security"] == []) is is_public
    if not is_public:
        for status in ("401", "403"):
            content = description["responses"][status]["content"]["application/json"]
            assert content["schema"]["$ref"].endswith("/Problem")


def test_operation_ids_are_unique():
    ids = [description["operationId"] for _, description in OPERATIONS]
    assert len(ids) == len(set(ids))


def test_every_reference_leads_somewhere():
    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)))
    assert wanted <= set(DOCUMENT["components"]["schemas"])


def test_what_people_send_is_strict():
    """No input model ignores a field it does not know: a typing error would pass in silence."""
    lenient = [
        name
        for name, schema in DOCUMENT["components"]["schemas"].items()
        if name.endswith(("In", "Patch")) and schema.get("additionalProperties") is not False
    ]
    assert lenient == []


def test_description_and_page_need_a_signed_in_caller(client, viewer_client):
    for path in ("/openapi.json", "/docs"):
        assert client.get(path).status_code == 401
        assert viewer_client.get(path).status_code == 200
    assert viewer_client.get("/openapi.json").json() == json.loads(json.dumps(DOCUMENT))
    assert "/api/v1/auth/me" in viewer_client.get("/docs").text
