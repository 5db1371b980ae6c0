"""Files that jobs wrote: manifests from agents, one view of all nodes, downloads, work folders."""

import base64
import datetime as dt
import hashlib
import io
import json
import tarfile
import zlib

import pytest
from sqlalchemy import func, select, update

from muster.wire import (
    EXPORT_PIECE_BYTES,
    OUTPUT_PART_BYTES,
    CheckpointRecord,
    DeletionResult,
    ExportResult,
    OutputFile,
    WorkFolder,
)
from muster_server import clock
from muster_server.db.models import AuditRow, EventRow, NodeRow, TrialOutputsRow, TrialRow
from muster_server.services.core import output_lists
from muster_server.services.experiments import deletion
from muster_server.services.outputs import manifests

from .test_lineage import API, post, start

DAY = dt.timedelta(days=1)
STORE = 'checkpoints: {storage: "s3://bucket/runs"}\n'


def digest(data):
    return hashlib.sha256(data).hexdigest()


def kept(path, data=b"x", **more):
    fields = {"state": "kept", "size_bytes": len(data), "mtime_ms": 1_700_000_000_000}
    sha256 = digest(data)
    return OutputFile(path=path, sha256=sha256, parts=[sha256], **(fields | more))


def left_out(path, size_bytes=100, reason="larger than outputs.max_size"):
    return OutputFile(path=path, state="left_out", size_bytes=size_bytes, reason=reason)


def names(show, trial_id=1, query=""):
    return [file["path"] for file in show(f"/trials/{trial_id}/outputs{query}")["items"]]


def events(show, trial_id=1, prefix="outputs."):
    found = show(f"/trials/{trial_id}/events?limit=200")["items"]
    return [(e["type"], e["message"]) for e in reversed(found) if e["type"].startswith(prefix)]


# ---------------------------------------------------------------- manifests


def test_an_assignment_says_what_is_kept(controller, agent, submit):
    node = agent(slots=2)
    submit("outputs: {exclude: ['*.tmp'], max_size: 5MB, every_s: 30}", slots=1)
    submit("outputs: null", slots=1)
    controller.tick()
    first, second = sorted(node.poll().values(), key=lambda a: a.spec.experiment_id)
    outputs = first.spec.outputs
    assert (outputs.include, outputs.exclude) == (["**"], ["*.tmp"])
    assert (outputs.max_bytes, outputs.every_s) == (5_000_000, 30.0)
    assert second.spec.outputs is None
    assert first.spec.work_from == []


def test_the_newest_manifest_wins_and_an_older_one_changes_nothing(ended_on_one, show):
    node, _, allocation_id = ended_on_one
    assert node.send_outputs(allocation_id, [kept("a")], seq=2, is_final=False)
    assert node.send_outputs(allocation_id, [kept("a")], seq=2, is_final=False), "said twice"
    assert not node.send_outputs(allocation_id, [kept("old")], seq=1)
    assert names(show) == ["a"]
    assert node.send_outputs(allocation_id, [kept("a"), kept("b", b"yy")], seq=3)
    summary = show("/trials/1/outputs/summary")
    assert (summary["state"], summary["num_files"], summary["size_bytes"]) == ("complete", 2, 3)
    (of_node,) = summary["nodes"]
    assert (of_node["node_name"], of_node["state"], of_node["attempt_no"]) == ("node-1", "final", 1)
    assert of_node["is_reachable"]


def test_a_node_speaks_only_of_attempts_it_was_a_member_of(ended_on_one, agent, show):
    node, _, allocation_id = ended_on_one
    other = agent("node-2", slots=1)
    other.specs[allocation_id] = node.specs[allocation_id]
    assert not other.send_outputs(allocation_id, [kept("evil")])
    assert not node.send_outputs(allocation_id, [kept("x")], attempt_no=2)
    assert not node.send_outputs(allocation_id, [kept("x")], node_rank=1)
    assert not node.send_outputs(allocation_id, [kept("x")], experiment_id=99)
    assert not node.send_outputs(allocation_id, [kept("x")], trial_id=99)
    assert names(show) == []


def packed(value):
    return base64.b64encode(zlib.compress(value)).decode()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("*", "outputs.bad_list"),
        (base64.b64encode(b"no zlib").decode(), "outputs.bad_list"),
        (base64.b64encode(zlib.compress(b"[]")[:-3]).decode(), "outputs.bad_list"),
        (packed(b"[1]"), "outputs.bad_list"),
        (packed(b"\xff"), "outputs.bad_list"),
        ("A" * (output_lists.PACKED_LIST_MAX_BYTES * 4 // 3 + 8), "outputs.list_too_large"),
        (packed(b" " * (output_lists.LIST_MAX_BYTES + 1)), "outputs.list_too_large"),
    ],
    ids=["base64", "zlib", "cut", "types", "json", "long", "bomb"],
)
def test_a_list_that_is_none_or_a_bomb_is_refused(ended_on_one, show, sent, code):
    node, _, allocation_id = ended_on_one
    expect = 413 if code == "outputs.list_too_large" else 422
    node.send_outputs(allocation_id, [], packed=sent, expect=expect)
    assert node.refusal["code"] == code
    assert names(show) == []


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", "a//b", "./a", "", "a/", "a\x00b", "x" * 5000]
)
def test_a_path_that_leads_out_of_the_folder_is_refused(ended_on_one, path):
    node, _, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept(path)], expect=422)
    assert node.refusal["code"] == "outputs.bad_list"


def test_the_largest_list_is_taken_and_read_in_time(ended_on_one, show):
    node, _, allocation_id = ended_on_one
    files = [kept(f"run/{n:05d}/events.out.tfevents", str(n).encode()) for n in range(20_000)]
    assert node.send_outputs(allocation_id, files)
    assert show("/trials/1/outputs/summary")["num_files"] == 20_000
    files.append(kept("z"))
    node.send_outputs(allocation_id, files, seq=2, expect=413)


def test_pages_are_decoded_once_and_a_new_manifest_is_seen_at_once(ended_on_one, show):
    node, _, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept(f"a{n}") for n in range(250)], is_final=False)
    manifests._unite.cache_clear()
    before = manifests._unite.cache_info()
    first = show("/trials/1/outputs?limit=100")
    show(f"/trials/1/outputs?limit=100&cursor={first['next']}")
    show("/trials/1/outputs?sort=size&order=desc")
    after = manifests._unite.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)
    assert names(show, query="?order=desc&limit=2") == ["a99", "a98"]
    node.send_outputs(allocation_id, [kept("b")], seq=2)
    assert names(show) == ["b"]


def test_what_is_missing_or_left_out_is_said_with_its_size(ended_on_one, show):
    node, experiment_id, allocation_id = ended_on_one
    files = [kept("a"), left_out("big.bin", 5000)]
    node.send_outputs(allocation_id, files, seq=1, is_final=False, problem="The storage is full.")
    summary = show("/trials/1/outputs/summary")
    assert (summary["state"], summary["num_left_out"], summary["left_out_bytes"]) == (
        "incomplete", 1, 5000,
    )  # fmt: skip
    assert summary["nodes"][0]["problem"] == "The storage is full."
    node.send_outputs(allocation_id, files, seq=2, is_final=False, problem="The storage is full.")
    node.send_outputs(allocation_id, files, seq=3)
    assert events(show) == [
        ("outputs.problem", "Outputs on node-1: The storage is full."),
        (
            "outputs.left_out",
            "Outputs on node-1: 1 file of 5,000 bytes left out; `muster outputs list "
            f"{experiment_id}.1` gives the reasons.",
        ),
        ("outputs.recovered", "Outputs on node-1: nothing is missing any more."),
        (
            "outputs.left_out",
            "Outputs on node-1: 1 file of 5,000 bytes left out; `muster outputs list "
            f"{experiment_id}.1` gives the reasons.",
        ),
        ("outputs.collected", "Outputs on node-1 collected: 1 file, 1 bytes."),
    ]


def test_a_problem_after_a_manifest_changes_no_file(ended_on_one, controller, member_client, show):
    node, _, allocation_id = ended_on_one
    assert node.send_outputs(allocation_id, [kept("a")], seq=3)
    away = {"is_final": False, "problem": "The storage is away."}
    assert node.send_outputs(allocation_id, [kept("a")], seq=3, **away)
    assert show("/trials/1/outputs/summary")["state"] == "incomplete"
    assert node.send_outputs(allocation_id, [kept("a")], seq=3)
    assert show("/trials/1/outputs/summary")["state"] == "complete"
    # The next attempt has a problem before it has written a manifest: what is there stays.
    again(controller, member_client)
    (assignment,) = node.poll().values()
    assert node.send_outputs(assignment.spec.allocation_id, [], seq=3, **away)
    assert names(show) == ["a"]
    assert show("/trials/1/outputs/summary")["nodes"][0]["problem"] == "The storage is away."
    assert [kind for kind, _ in events(show)] == [
        "outputs.collected", "outputs.problem", "outputs.recovered", "outputs.problem",
    ]  # fmt: skip


# ---------------------------------------------------------------- the view of all nodes


def test_files_of_two_nodes_are_one_list_and_none_is_lost(ended_on_two, show):
    (first, a), (second, b) = ended_on_two
    first.send_outputs(a, [left_out("big"), kept("ckpt.pt", b"0"), kept("same.txt")])
    assert show("/trials/1/outputs/summary")["state"] == "incomplete"
    second.send_outputs(
        b, [left_out("big"), kept("ckpt.pt", b"1"), kept("same.txt"), kept("only.txt")]
    )
    items = show("/trials/1/outputs?state=kept")["items"]
    assert [(f["path"], f["nodes"], f["is_conflict"]) for f in items] == [
        ("ckpt.pt", [first.name], False),
        ("ckpt.pt @node1", [second.name], True),
        ("only.txt", [second.name], False),
        ("same.txt", [first.name, second.name], False),
    ]
    summary = show("/trials/1/outputs/summary")
    assert (summary["state"], summary["num_files"], summary["num_conflicts"]) == ("complete", 4, 1)
    assert (summary["num_left_out"], summary["left_out_bytes"]) == (1, 100), "on both nodes, once"
    conflicts = [message for kind, message in events(show) if kind == "outputs.conflict"]
    assert conflicts == [
        "Nodes wrote different content under the same name; all of it is kept: ckpt.pt @node1."
    ]


def test_lists_are_filtered_sorted_and_paged(ended_on_one, show, viewer_client):
    node, _, allocation_id = ended_on_one
    node.send_outputs(
        allocation_id,
        [
            kept("a/1.pt", b"x" * 30, mtime_ms=3000),
            kept("a/2.txt", b"x" * 10, mtime_ms=1000),
            kept("b/3.pt", b"x" * 20, mtime_ms=2000),
            left_out("c"),
        ],
    )
    assert names(show, query="?prefix=a/") == ["a/1.pt", "a/2.txt"]
    assert names(show, query="?glob=*.pt") == ["a/1.pt", "b/3.pt"]
    assert names(show, query="?state=left_out") == ["c"]
    assert names(show, query="?sort=size&order=desc&state=kept") == ["a/1.pt", "b/3.pt", "a/2.txt"]
    assert names(show, query="?sort=modified&state=kept") == ["a/2.txt", "b/3.pt", "a/1.pt"]
    first = show("/trials/1/outputs?limit=3")
    assert [file["path"] for file in first["items"]] == ["a/1.pt", "a/2.txt", "b/3.pt"]
    # A file that appears between two pages neither repeats nor hides another one.
    node.send_outputs(
        allocation_id, [kept("0"), kept("a/1.pt"), kept("b/3.pt"), left_out("c")], seq=2
    )
    assert names(show, query=f"?limit=3&cursor={first['next']}") == ["c"]
    refused = viewer_client.get(f"{API}/trials/1/outputs?cursor=e30")
    assert refused.json()["error"]["code"] == "request.bad_cursor"
    assert viewer_client.get(f"{API}/trials/9/outputs").status_code == 404


def test_a_trial_without_outputs_says_why(controller, agent, submit, show):
    submit("outputs: null", slots=1)
    submit(slots=1)
    controller.tick()
    ids = {
        t["experiment_id"]: t["id"]
        for e in (1, 2)
        for t in show(f"/experiments/{e}/trials")["items"]
    }
    assert show(f"/trials/{ids[1]}/outputs/summary")["state"] == "off"
    assert show(f"/trials/{ids[2]}/outputs/summary")["state"] == "none"


# ---------------------------------------------------------------- downloads and previews


def serve(node, export, data):
    """Answer an export like an agent."""
    if export.first_bytes:
        data = data[: export.first_bytes]
    for idx in range(0, max(1, len(data)), EXPORT_PIECE_BYTES):
        piece = data[idx : idx + EXPORT_PIECE_BYTES]
        if piece:
            reply = node.send_piece(export.id, idx // EXPORT_PIECE_BYTES, piece)
            assert reply.json() == {"taken": True}, reply.text
    result = ExportResult(id=export.id, outcome="done", size_bytes=len(data), sha256=digest(data))
    assert node.report_export(result)


def tar_of(export, contents):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in export.files:
            info = tarfile.TarInfo(file.path)
            info.size = file.size_bytes
            archive.addfile(info, io.BytesIO(contents[file.sha256]))
    return buffer.getvalue()


def test_one_file_is_downloaded_as_it_is(ended_on_one, viewer_client):
    node, experiment_id, allocation_id = ended_on_one
    data = bytes(range(256)) * 5000
    node.send_outputs(allocation_id, [kept("out/模型 1.pt", data), kept("b")])
    (asked,) = post(viewer_client, "/trials/1/outputs:export", status=202, paths=["out/模型 1.pt"])[
        "exports"
    ]
    assert (asked["state"], asked["waits_for"], asked["file_name"]) == (
        "pending", "node-1", "模型 1.pt",
    )  # fmt: skip
    (wanted,) = node.exports()
    assert wanted.path == f"experiment-{experiment_id}/trial-1/outputs"
    assert [(f.path, f.sha256) for f in wanted.files] == [("out/模型 1.pt", digest(data))]
    serve(node, wanted, data)
    reply = viewer_client.get(f"{API}/exports/{asked['id']}/file")
    assert reply.content == data
    assert reply.headers["content-disposition"] == (
        "attachment; filename*=utf-8''%E6%A8%A1%E5%9E%8B%201.pt"
    )
    again = post(viewer_client, "/trials/1/outputs:export", status=202, paths=["out/模型 1.pt"])[
        "exports"
    ]
    assert [export["id"] for export in again] == [asked["id"]]
    assert viewer_client.get(f"{API}/trials/1/exports").json()["items"] == [], "models only"


def test_all_files_are_one_archive_for_each_storage(ended_on_two, member_client):
    (first, a), (second, b) = ended_on_two
    contents = {digest(data): data for data in (b"0", b"1", b"x")}
    first.send_outputs(a, [kept("ckpt.pt", b"0"), kept("same.txt")])
    second.send_outputs(b, [kept("ckpt.pt", b"1"), kept("same.txt"), left_out("big")])
    asked = post(member_client, "/trials/1/outputs:export", status=202)["exports"]
    found = {}
    for node in (first, second):
        (wanted,) = node.exports()
        serve(node, wanted, tar_of(wanted, contents) if wanted.files[1:] else b"1")
    for export in asked:
        body = member_client.get(f"{API}/exports/{export['id']}/file").content
        if export["num_files"] == 1:
            found[export["file_name"]] = body
            continue
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            found |= {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
    assert found == {"ckpt.pt": b"0", "ckpt.pt @node1": b"1", "same.txt": b"x"}


def test_of_a_large_file_parts_can_be_asked_for(ended_on_one, member_client, settings):
    node, _, allocation_id = ended_on_one
    parts = [digest(str(n).encode()) for n in range(12)]
    size_bytes = 11 * OUTPUT_PART_BYTES + 5
    big = kept("big.pt", size_bytes=size_bytes)
    big = OutputFile(**{**big.__dict__, "parts": parts})
    node.send_outputs(allocation_id, [big])
    refused = post(member_client, "/trials/1/outputs:export", code="outputs.too_large")
    assert "muster outputs get" in refused["hint"]
    body = {"paths": ["big.pt"], "part": 11}
    post(member_client, "/trials/1/outputs:export", status=202, **body)
    (wanted,) = node.exports()
    (piece,) = wanted.files
    assert (piece.size_bytes, piece.sha256, piece.parts) == (5, parts[11], [parts[11]])
    post(
        member_client, "/trials/1/outputs:export", code="outputs.no_part", paths=["big.pt"], part=12
    )


def test_what_has_no_content_is_refused_with_the_reason(ended_on_one, member_client):
    node, _, allocation_id = ended_on_one
    link = OutputFile(path="latest", state="link", target="run-1")
    node.send_outputs(allocation_id, [link, left_out("big")])
    url = "/trials/1/outputs:export"
    post(member_client, url, code="outputs.none")
    refused = post(member_client, url, code="outputs.not_kept", paths=["big"])
    assert "larger than outputs.max_size" in refused["message"]
    refused = post(member_client, url, code="outputs.not_kept", paths=["latest"])
    assert "a link to run-1" in refused["message"]
    post(member_client, url, code="outputs.not_found", paths=["nothing"])


def ask_preview(client, path):
    return client.post(f"{API}/trials/1/outputs:preview", json={"path": path}).json()


def preview(client, node, path, data):
    asked = ask_preview(client, path)
    if asked["state"] == "pending":
        (wanted,) = node.exports()
        serve(node, wanted, data)
    return client.get(f"{API}/exports/{asked['id']}/preview")


HTML = b"<html><script>fetch('/api/v1/experiments')</script></html>"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.mark.parametrize(
    ("path", "data", "media_type"),
    [
        ("page.html", HTML, "text/plain; charset=utf-8"),
        ("drawing.svg", b"<svg onload='x()'/>", "text/plain; charset=utf-8"),
        ("metrics.json", b'{"loss": 1}', "text/plain; charset=utf-8"),
        ("loss.png", PNG, "image/png"),
        ("looks-like.png", HTML, "text/plain; charset=utf-8"),
        ("empty.txt", b"", "text/plain; charset=utf-8"),
    ],
)
def test_a_preview_is_never_active(ended_on_one, viewer_client, path, data, media_type):
    node, _, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept(path, data)])
    reply = preview(viewer_client, node, path, data)
    assert (reply.status_code, reply.content) == (200, data)
    assert reply.headers["content-type"] == media_type
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in reply.headers["content-security-policy"]
    assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_of_a_long_text_the_first_mebibyte_is_shown(ended_on_one, viewer_client):
    node, _, allocation_id = ended_on_one
    data = b"0123456789abcde\n" * 100_000
    node.send_outputs(allocation_id, [kept("log.txt", data)])
    assert preview(viewer_client, node, "log.txt", data).content == data[: 2**20]
    asked = ask_preview(viewer_client, "log.txt")
    assert asked["state"] == "done", "it was fetched before"


def test_what_is_neither_text_nor_image_has_no_preview(ended_on_one, viewer_client):
    node, _, allocation_id = ended_on_one
    data = b"PK\x03\x04\x00\x00"
    huge = kept("huge.png", size_bytes=9 * 2**20)
    node.send_outputs(allocation_id, [kept("model.pt", data), huge])
    reply = preview(viewer_client, node, "model.pt", data)
    assert reply.json()["error"]["code"] == "outputs.no_preview"
    assert ask_preview(viewer_client, "huge.png")["error"]["code"] == "outputs.no_preview"
    (asked,) = post(viewer_client, "/trials/1/outputs:export", status=202, paths=["model.pt"])[
        "exports"
    ]
    serve(node, node.exports()[0], data)
    reply = viewer_client.get(f"{API}/exports/{asked['id']}/preview")
    assert reply.json()["error"]["code"] == "exports.no_preview"


# ---------------------------------------------------------------- the next attempt


def again(controller, member_client, experiment_id=1):
    post(member_client, f"/experiments/{experiment_id}:continue", status=202)
    controller.tick()


def test_the_next_attempt_knows_where_its_files_are(
    ended_on_one, controller, agent, member_client, show
):
    node, experiment_id, allocation_id = ended_on_one
    agent("node-0", slots=1)  # would come first by its name
    node.send_outputs(allocation_id, [kept("ckpt.pt", b"12345")], seq=4)
    again(controller, member_client)
    (assignment,) = node.poll().values()
    (source,) = assignment.spec.work_from
    assert (source.node_rank, source.attempt_no, source.seq) == (0, 1, 4)
    assert (source.node_id, source.storage_id, source.storage_url) == (
        node.node_id, node.storage_id, "",
    )  # fmt: skip
    assert source.folder == f"experiment-{experiment_id}/trial-1/outputs"
    assert source.size_bytes == 5
    placed = [message for _, message in events(show, prefix="trial.placed")]
    assert placed[-1] == "Attempt 2 got 1 slot: 1 on node-1."


def test_on_another_node_it_is_said_what_becomes_of_the_files(
    ended_on_one, controller, agent, member_client, database, show
):
    node, _, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept("ckpt.pt")])
    agent("node-2", slots=1)
    with database.transaction() as session:
        session.execute(
            update(NodeRow).where(NodeRow.name == "node-1").values(scheduling="cordoned")
        )
    again(controller, member_client)
    placed = [message for _, message in events(show, prefix="trial.placed")]
    assert placed[-1] == (
        "Attempt 2 got 1 slot: 1 on node-2. Its work folder is in the storage of node-1, which "
        "node-2 does not have: it starts without those files."
    )


def test_a_trial_waits_for_its_last_files_before_it_starts_on_another_node(
    controller, agent, submit, member_client, database, show
):
    node, other = agent(slots=1), agent("node-2", slots=1)
    with database.transaction() as session:
        session.execute(
            update(NodeRow).where(NodeRow.name == "node-2").values(scheduling="cordoned")
        )
    submit(slots=1)
    controller.tick()
    first = start(controller, node)
    assert node.send_outputs(first, [kept("state.txt", b"1")], is_final=False)
    post(member_client, "/experiments/1:pause", status=202)
    controller.tick()
    node.exit(first, "stopped")
    controller.tick()
    with database.transaction() as session:
        session.execute(update(NodeRow).values(scheduling="open"))
    between = submit(slots=1, allow_nodes="[node-1]")
    controller.tick()
    assert show(f"/experiments/{between}")["state"] != "QUEUED", "it has the slot of node-1"
    post(member_client, "/experiments/1:resume", status=202)
    controller.tick()
    assert other.poll() == {}
    assert show("/trials/1")["pending_reason"] == (
        "Needs 1 cpu slot in pool default: the last files that it wrote on node-1 are being collected. "
        "Starts there as soon as there is room, or elsewhere when they are collected, at the latest "
        "two minutes after the last attempt ended."
    )
    assert node.send_outputs(first, [kept("state.txt", b"22")], seq=2)
    controller.tick()
    (source,) = other.only().spec.work_from
    assert (source.attempt_no, source.seq) == (1, 2)


def test_after_an_attempt_on_two_nodes_each_rank_has_its_own_files(
    ended_on_two, controller, member_client
):
    for node, allocation_id in ended_on_two:
        node.send_outputs(allocation_id, [kept("ckpt.pt", node.name.encode())])
    again(controller, member_client)
    for node, _ in ended_on_two:
        (assignment,) = node.poll().values()
        ranks = [source.node_rank for source in assignment.spec.work_from]
        assert ranks == sorted({assignment.spec.node_rank, 0}, reverse=True)


def test_outputs_of_an_object_store_are_named_by_url(controller, agent, submit, member_client):
    node = agent(slots=1)
    submit(STORE, slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    node.exit(allocation_id, "success")
    controller.tick()
    url = node.specs[allocation_id].spec.checkpoint_url
    assert node.send_outputs(allocation_id, [kept("a"), kept("b")])
    post(member_client, "/trials/1/outputs:export", status=202)
    (wanted,) = node.exports()
    assert (wanted.storage_url, wanted.path) == (
        "s3://bucket/runs", "experiment-1/trial-1/outputs",
    )  # fmt: skip
    again(controller, member_client)
    (source,) = node.only().spec.work_from
    assert (source.storage_id, source.storage_url) == ("", f"{url}/outputs")


# ---------------------------------------------------------------- what goes


def test_a_work_folder_goes_when_its_trial_has_ended_for_long(ended_on_one, database, show):
    node, experiment_id, allocation_id = ended_on_one
    folder = WorkFolder(
        experiment_id=experiment_id, trial_id=1, attempt_no=1, is_collected=True, size_bytes=2000
    )
    node.send_outputs(allocation_id, [kept("a")])
    assert node.report_work_folders(folder) == []
    with database.transaction() as session:
        before = clock.now() - dt.timedelta(hours=25)
        session.execute(update(TrialRow).values(ended_at=before))
    assert node.report_work_folders(folder) == [1]
    assert node.report_work_folders(folder) == [1], "it has not deleted it yet"
    told = [message for kind, message in events(show) if kind == "outputs.work_folder_deleted"]
    assert told == [
        "node-1 deletes its work folder of 2,000 bytes: the trial ended more than 24 h ago, and its "
        "files are in the storage."
    ]
    not_collected = WorkFolder(**{**folder.__dict__, "is_collected": False})
    assert node.report_work_folders(not_collected) == []
    unknown = WorkFolder(**{**folder.__dict__, "trial_id": 77, "experiment_id": 77})
    assert node.report_work_folders(unknown) == []
    of_another = WorkFolder(**{**folder.__dict__, "experiment_id": 77})
    assert node.report_work_folders(of_another) == []


def test_with_the_experiment_its_outputs_and_work_folders_go(
    ended_on_one, member_client, database, show
):
    node, experiment_id, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept("a", b"123")], is_final=False)

    reply = member_client.get(f"{API}/experiments/{experiment_id}/deletion")
    freed = reply.json()["freed"]
    assert (freed["num_outputs"], freed["outputs_bytes"]) == (1, 3)
    assert [s["size_bytes"] for s in freed["storages"]] == [3]
    assert member_client.delete(f"{API}/experiments/{experiment_id}").status_code == 200
    folder = WorkFolder(
        experiment_id=experiment_id, trial_id=1, attempt_no=1, is_collected=False, size_bytes=2000
    )
    assert node.report_work_folders(folder) == [1]
    (deleted,) = node.deletions()
    assert deleted.path == f"experiment-{experiment_id}", "the outputs are inside of it"
    while not deletion.clear(database):
        pass  # the next round goes on where this one ended
    with database.read() as session:
        for table in (TrialOutputsRow, TrialRow, EventRow):
            where = EventRow.trial_id == 1 if table is EventRow else True
            assert session.scalar(select(func.count()).select_from(table).where(where)) == 0
    assert node.report_work_folders(folder) == [1], "also when the rows are gone"
    assert not node.send_outputs(allocation_id, [kept("late")], seq=9)


def test_files_that_were_to_stay_keep_their_work_folder(ended_on_one, member_client):
    node, experiment_id, _ = ended_on_one
    reply = member_client.delete(f"{API}/experiments/{experiment_id}?keep_files=true")
    assert reply.status_code == 200, reply.text
    folder = WorkFolder(
        experiment_id=experiment_id, trial_id=1, attempt_no=1, is_collected=False, size_bytes=1
    )
    assert node.report_work_folders(folder) == []


def test_the_list_of_an_export_is_stored_packed(ended_on_one, member_client, database):
    node, _, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept("a"), kept("b")])
    post(member_client, "/trials/1/outputs:export", status=202)
    with database.read() as session:
        packed_list = session.scalars(select(TrialOutputsRow.files)).one()
    assert [file.path for file in output_lists.decode_files(packed_list)] == ["a", "b"]
    assert json.loads(zlib.decompress(packed_list))[0]["path"] == "a"


# ---------------------------------------------------------------- retention


def clean(client, experiment_id, status=202, code=None, **policy):
    url = f"/experiments/{experiment_id}/outputs:clean"
    return post(client, url, status=status, code=code, **policy)


def plan_of(show, experiment_id, query):
    plan = show(f"/experiments/{experiment_id}/outputs:plan?{query}")
    return plan, [(row["trial_no"], row["is_kept"], row["reason"]) for row in plan["trials"]]


def test_outputs_are_deleted_by_age_and_said_with_their_size(
    ended_on_one, show, member_client, database
):
    node, experiment_id, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept("a", b"abc"), kept("b", b"de"), left_out("c")])
    plan, rows = plan_of(show, experiment_id, "older_than_days=30")
    assert rows == [(1, True, "within the policy")]
    with database.transaction() as session:
        session.execute(update(TrialOutputsRow).values(updated_at=clock.now() - 31 * DAY))
    plan, rows = plan_of(show, experiment_id, "older_than_days=30")
    assert rows == [(1, False, "31.0 d old")]
    assert (plan["num_dropped"], plan["freed_bytes"], plan["kept_bytes"]) == (1, 5, 0)
    assert names(show) == ["a", "b", "c"], "a dry run changes nothing"
    done = clean(member_client, experiment_id, older_than_days=30)
    assert (done["num_deleted"], done["freed_bytes"]) == (1, 5)
    assert names(show) == []
    summary = show("/trials/1/outputs/summary")
    assert (summary["state"], summary["deleted_bytes"]) == ("deleted", 5)
    message = dict(events(show))["outputs.cleaned"]
    assert message.startswith("Outputs are deleted: 2 files, 5 bytes, 31.0 d old"), message
    (deletion,) = node.deletions()
    assert deletion.path == f"experiment-{experiment_id}/trial-1/outputs"
    assert node.send_outputs(allocation_id, [kept("a", b"abc")]), "an agent says its list again"
    assert names(show) == [], "what was deleted does not come back"
    node.report_deletions(DeletionResult(id=deletion.id, outcome="done", freed_bytes=5))
    assert node.deletions() == []
    with database.read() as session:
        action = AuditRow.action == "outputs.clean_requested"
        audit = session.scalars(select(AuditRow).where(action)).one()
        assert audit.detail == {"num_trials": 1, "freed_bytes": 5}
    assert clean(member_client, experiment_id, older_than_days=30)["num_deleted"] == 0


def test_outputs_that_somebody_needs_stay(controller, agent, submit, show, member_client):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    node.send_outputs(allocation_id, [kept("a")], is_final=False)
    _, rows = plan_of(show, experiment_id, "max_bytes=0")
    assert rows == [(1, True, "its trial may still run")]
    record = CheckpointRecord(step=7, path="step-7", size_bytes=1, files={}, metrics={})
    node.send(allocation_id, record)
    node.exit(allocation_id, "success")
    controller.tick()
    _, rows = plan_of(show, experiment_id, "max_bytes=0")
    assert rows == [(1, True, "its last files have not been collected")]
    node.send_outputs(allocation_id, [kept("a")], seq=2)
    checkpoint_id = show("/trials/1/checkpoints")["items"][0]["id"]
    post(member_client, f"/checkpoints/{checkpoint_id}:pin", status=200)
    _, rows = plan_of(show, experiment_id, "max_bytes=0")
    assert rows == [(1, True, "its checkpoint of step 7 is pinned")]
    assert clean(member_client, experiment_id, max_bytes=0)["num_deleted"] == 0
    assert names(show) == ["a"]
    post(member_client, f"/checkpoints/{checkpoint_id}:unpin", status=200)
    assert clean(member_client, experiment_id, max_bytes=0)["num_deleted"] == 1


def test_an_attempt_after_a_clean_up_keeps_what_it_writes(
    controller, ended_on_one, show, member_client
):
    node, experiment_id, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept("a")], seq=5)
    clean(member_client, experiment_id, max_bytes=0)
    assert len(node.deletions()) == 1
    post(member_client, f"/experiments/{experiment_id}:continue", status=202)
    controller.tick()
    assert node.deletions() == [], "not while something may be written there"
    assert node.only().spec.work_from == [], "there is nothing to restore"
    again = start(controller, node)
    assert node.send_outputs(again, [kept("new")], seq=1)
    node.exit(again, "success")
    controller.tick()
    assert names(show) == ["new"]
    assert node.deletions() == [], "the folder has files again"


def test_a_clean_up_without_a_limit_is_refused(ended_on_one, member_client):
    _, experiment_id, _ = ended_on_one
    clean(member_client, experiment_id, code="outputs.no_limit", status=422, keep_best=1)
    clean(member_client, experiment_id, code="request.invalid", status=422, max_bytes=-1)
