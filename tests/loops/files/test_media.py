"""Media of a script, from an agent's record to the content that a browser shows."""

import base64
import hashlib
import json
import re

import pytest

from muster import media
from muster.wire import ExportResult, MediaDropsRecord, MediaRecord

from .test_lineage import API, post

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40_000)


def item(content, *, kind="text", mime="text/plain", name="samples", step=1, is_file=False, **more):
    sha256 = hashlib.sha256(content).hexdigest()
    file = f"muster-outputs/media/{sha256}{media.EXTENSIONS[mime]}" if is_file else ""
    return MediaRecord(
        kind=kind,
        name=name,
        step=step,
        rank=more.pop("rank", 0),
        time_ms=1_700_000_000_000,
        mime=mime,
        sha256=sha256,
        size_bytes=len(content),
        data="" if is_file else base64.b64encode(content).decode(),
        file=file,
        **more,
    )


@pytest.fixture
def running(controller, agent, submit, show):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    return node, node.only().spec.allocation_id, f"/trials/{trial['id']}/media"


def test_small_content_is_there_at_once(running, show, member_client):
    node, allocation_id, path = running
    assert show(f"{path}/series") == {"series": [], "num_series": 0, "dropped": []}
    node.send(
        allocation_id,
        item(b"one", step=1),
        item(b"two\0", step=5, rank=2, caption="c\0"),
        item(b"<svg onload=alert(1)>", kind="image", mime="image/svg+xml", name="drawing"),
        MediaDropsRecord(rank=0, num={"rate": 3}),
        MediaDropsRecord(rank=2, num={"rate": 2, "invalid": 1}),
    )
    found = show(f"{path}/series")
    drawing, samples = found["series"]
    assert (drawing["name"], drawing["kind"], drawing["steps"]) == ("drawing", "image", [1])
    assert (samples["steps"], samples["ranks"], samples["num_items"]) == ([1, 5], [0, 2], 2)
    assert found["dropped"] == [{"reason": "invalid", "num": 1}, {"reason": "rate", "num": 5}]

    first = show(f"{path}?name=samples&limit=1")
    rest = show(f"{path}?name=samples&limit=1&cursor={first['next']}")
    assert [one["step"] for one in (*first["items"], *rest["items"])] == [1, 5]
    assert rest["next"] is None
    (last,) = show(f"{path}?name=samples&to_step=9&order=desc&limit=1")["items"]
    assert (last["step"], last["rank"], last["caption"]) == (5, 2, "c")
    assert show(f"{path}?kind=image&rank=0")["items"][0]["name"] == "drawing"

    content = f"{API}{path}/{last['id']}/content"
    assert post(member_client, f"{path}/{last['id']}:fetch", status=202)["state"] == "ready"
    reply = member_client.get(content)
    assert reply.content == b"two\0"
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    part = member_client.get(content, headers={"Range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, b"wo")
    etag = reply.headers["etag"]
    assert member_client.get(content, headers={"If-None-Match": etag}).status_code == 304

    # What may hold scripts is saved, not shown, when a browser opens its address.
    (svg,) = show(f"{path}?name=drawing")["items"]
    reply = member_client.get(f"{API}{path}/{svg['id']}/content")
    assert reply.headers["content-disposition"].startswith("attachment; ")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in reply.headers["content-security-policy"]
    post(member_client, f"{path}/999999:fetch", code="media.not_found")


def test_a_file_is_fetched_from_the_node_that_has_it(running, show, member_client):
    node, allocation_id, path = running
    node.send(allocation_id, item(PNG, kind="image", mime="image/png", name="x", is_file=True))
    (found,) = show(path)["items"]
    content = f"{API}{path}/{found['id']}/content"
    assert member_client.get(content).json()["error"]["code"] == "media.not_fetched"
    asked = post(member_client, f"{path}/{found['id']}:fetch", status=202)
    assert (asked["state"], asked["waits_for"]) == ("pending", node.name)
    assert member_client.get(content).json()["error"]["code"] == "exports.pending"

    (wanted,) = node.exports()
    assert [file.path for file in wanted.files] == [found["file"]]
    node.send_piece(wanted.id, 0, PNG)
    result = {"size_bytes": len(PNG), "sha256": found["sha256"], "outcome": "done"}
    assert node.report_export(ExportResult(id=wanted.id, **result)) is True
    assert post(member_client, f"{path}/{found['id']}:fetch", status=202)["state"] == "ready"
    reply = member_client.get(content)
    assert (reply.content, reply.headers["content-type"]) == (PNG, "image/png")
    assert reply.headers["content-disposition"] == 'inline; filename="x-step-1-rank-0.png"'
    part = member_client.get(content, headers={"Range": "bytes=39990-"})
    assert (part.status_code, part.content) == (206, PNG[39990:])


def test_what_no_agent_sends_is_counted(running, show):
    node, allocation_id, path = running
    good = item(b"one")
    node.send(
        allocation_id,
        item(b"<html>", kind="image", mime="text/plain"),
        MediaRecord(**{**vars(good), "sha256": "0" * 64}),
        MediaRecord(**{**vars(good), "data": "", "file": "../../etc/passwd"}),
    )
    # What the node counts replaces what it counted before, and nothing else.
    node.send(allocation_id, MediaDropsRecord(rank=0, num={"invalid": 1}))
    assert show(f"{path}/series") == {
        "series": [],
        "num_series": 0,
        "dropped": [{"reason": "damaged", "num": 3}, {"reason": "invalid", "num": 1}],
    }


def test_media_are_listed_and_fetched_by_command(running, muster, tmp_path):
    node, allocation_id, _ = running
    node.send(
        allocation_id,
        item(b"one", step=1),
        item(b"two", step=5, rank=2, caption="[b]"),
        item(b"again", step=5, rank=2),
        item(b"{}", kind="table", mime="application/json", name="../worst/t"),
        MediaDropsRecord(rank=0, num={"rate": 3}),
    )

    def run(*arguments):
        result = muster("media", *arguments)
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    shown = run("list", "1")
    assert re.search(r"samples +text +3 +2 +1 +5 +0, 2", shown.stdout)
    assert "4 items under 2 names." in shown.stderr
    assert "Left out: 3 items (3 rate)." in shown.stderr
    assert "[b]" in run("list", "1", "samples", "--rank", "2").stdout
    listed = json.loads(run("list", "1", "samples", "--step", "1", "--json").stdout)
    assert [one["step"] for one in listed] == [1]
    assert "'samples'" in str(muster("media", "list", "1", "other").exception)
    assert "give the name" in str(muster("media", "list", "1", "--step", "1").exception)

    to = tmp_path / "to"
    assert f"Wrote 4 files to {to} (13 B)." in run("get", "1", "-o", str(to)).stderr
    files = {str(p.relative_to(to)): p.read_bytes() for p in to.rglob("*") if p.is_file()}
    again = next(name for name in files if re.fullmatch(r"samples/step-5-rank-2-\d+\.txt", name))
    assert files == {
        "samples/step-1-rank-0.txt": b"one",
        "samples/step-5-rank-2.txt": b"two",
        again: b"again",
        "worst/t/step-1-rank-0.json": b"{}",
    }
    assert "Wrote 0 files" in run("get", "1", "samples", "--last", "-o", str(to)).stderr
    (to / "samples/step-1-rank-0.txt").write_bytes(b"mine")
    assert "--force" in muster("media", "get", "1", "-o", str(to)).exception.hint
    done = json.loads(run("get", "1", "-o", str(to), "--force", "--json").stdout)
    assert (done["num_files"], done["num_unchanged"]) == (1, 3)
    assert (to / "samples/step-1-rank-0.txt").read_bytes() == b"one"
