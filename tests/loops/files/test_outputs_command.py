"""`muster outputs` against the real application, and an agent that has the files."""

import io
import json
import re
import tarfile
import threading

import pytest

from muster.cli.output import CommandFailure
from muster.client import ClientError
from muster.client import outputs as fetching
from muster.client.outputs import ExistsAlready, NotFetched, NotSafe
from muster.wire import ExportResult, OutputFile
from muster_server.services.outputs import downloads

from .test_outputs import digest, kept, left_out, serve

PART = 1000


@pytest.fixture
def to(tmp_path):
    folder = tmp_path / "outputs"
    folder.mkdir()
    return folder


class FileServer:
    """Answers the exports of nodes out of what their jobs wrote, in a thread."""

    def __init__(self, nodes, contents):
        self.contents = {digest(data): data for data in contents}
        self.asked = []
        """Names of the files of each export."""
        self.broken = set()
        """Digests that the storage has lost."""
        self._nodes = nodes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _run(self):
        while not self._ended.wait(0.02):
            for node in self._nodes:
                for export in node.exports():
                    self._answer(node, export)

    def _answer(self, node, export):
        self.asked.append([file.path for file in export.files])
        if any(file.sha256 in self.broken for file in export.files):
            failed = ExportResult(id=export.id, outcome="failed", message="part 2 is not there")
            node.report_export(failed)
            return
        if not export.files[1:]:
            serve(node, export, self.contents[export.files[0].sha256])
            return
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for file in export.files:
                info = tarfile.TarInfo(file.path)
                info.size = file.size_bytes
                archive.addfile(info, io.BytesIO(self.contents[file.sha256]))
        serve(node, export, buffer.getvalue())


def ok(result):
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_what_a_trial_wrote_is_listed_and_fetched(ended_on_one, muster, to):
    node, experiment_id, allocation_id = ended_on_one
    link = OutputFile(path="runs/latest", state="link", target="1")
    away = OutputFile(path="runs/away", state="link", target="../../etc")
    files = [kept("ckpt.pt", b"12"), kept("runs/1/loss.csv", b"1,2\n"), left_out("big"), link, away]
    node.send_outputs(allocation_id, sorted(files, key=lambda file: file.path))
    shown = ok(muster("outputs", "list", str(experiment_id), "--long"))
    assert re.search(r"ckpt\.pt +2 B .* kept +node-1 +" + digest(b"12")[:12], shown.stdout)
    assert "not kept: larger than outputs.max_size" in shown.stdout
    assert "→ 1" in shown.stdout
    assert "2 files kept, 6 B; 1 not kept, 100 B." in shown.stderr
    listed = json.loads(ok(muster("outputs", "list", f"{experiment_id}.1", "--json")).stdout)
    assert listed["summary"]["state"] == "complete"
    assert len(listed["files"]) == 5

    with FileServer([node], [b"12", b"1,2\n"]) as server:
        done = ok(muster("outputs", "get", str(experiment_id), "-o", str(to)))
        assert f"Wrote 2 files to {to} (6 B)." in done.stderr
        assert "not fetched: big (100 B): larger than outputs.max_size" in done.stderr
        assert "not fetched: runs/away (0 B): a link to ../../etc" in done.stderr
        assert tree(to) == {"ckpt.pt": b"12", "runs/1/loss.csv": b"1,2\n"}
        assert (to / "runs/latest").readlink().name == "1"
        assert not (to / "runs/away").is_symlink()
        assert (to / "ckpt.pt").stat().st_mtime == 1_700_000_000

        again = ok(muster("outputs", "get", str(experiment_id), "-o", str(to)))
        assert "Wrote 0 files" in again.stderr
        assert "2 files there already" in again.stderr
        assert len(server.asked) == 1, "nothing is fetched twice"

        (to / "ckpt.pt").write_bytes(b"mine")
        refused = muster("outputs", "get", str(experiment_id), "-o", str(to))
        assert isinstance(refused.exception, ExistsAlready)
        assert (to / "ckpt.pt").read_bytes() == b"mine"
        ok(muster("outputs", "get", str(experiment_id), "-o", str(to), "--force"))
        assert (to / "ckpt.pt").read_bytes() == b"12"
        part = ok(muster("outputs", "get", str(experiment_id), "*.csv", "-o", str(to.parent / "2")))
        assert "Wrote 1 file " in part.stderr
        assert tree(to.parent / "2") == {"runs/1/loss.csv": b"1,2\n"}
        ok(muster("outputs", "get", str(experiment_id), "runs", "-o", str(to.parent / "3")))
        assert tree(to.parent / "3") == {"runs/1/loss.csv": b"1,2\n"}


def test_files_of_two_nodes_come_from_both_storages(ended_on_two, muster, to):
    for rank, (node, allocation_id) in enumerate(ended_on_two):
        node.send_outputs(allocation_id, [kept("ckpt.pt", b"%d" % rank), kept(f"rank-{rank}.txt")])
    with FileServer([node for node, _ in ended_on_two], [b"0", b"1", b"x"]):
        ok(muster("outputs", "get", "1", "-o", str(to), as_="viewer"))
    assert tree(to) == {
        "ckpt.pt": b"0", "ckpt.pt @node1": b"1", "rank-0.txt": b"x", "rank-1.txt": b"x",
    }  # fmt: skip


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(downloads, "OUTPUT_PART_BYTES", PART)
    monkeypatch.setattr(fetching, "OUTPUT_PART_BYTES", PART)
    monkeypatch.setattr(fetching, "SMALL_BYTES", PART)


def in_parts(path, data):
    parts = [digest(data[at : at + PART]) for at in range(0, len(data), PART)]
    return OutputFile(**{**kept(path, data).__dict__, "parts": parts})


def test_a_large_file_goes_on_where_it_was_cut_off(ended_on_one, muster, to, small_parts):
    node, _, allocation_id = ended_on_one
    data = bytes(n % 251 for n in range(3 * PART + 7))
    pieces = [data[at : at + PART] for at in range(0, len(data), PART)]
    node.send_outputs(allocation_id, [in_parts("big.pt", data)])
    with FileServer([node], pieces) as server:
        server.broken.add(digest(pieces[2]))
        failed = muster("outputs", "get", "1", "-o", str(to))
        assert isinstance(failed.exception, NotFetched)
        assert "part 2 is not there" in failed.exception.message
        assert tree(to) == {".big.pt.part": data[: 2 * PART]}
        server.broken.clear()
        before = len(server.asked)
        ok(muster("outputs", "get", "1", "-o", str(to)))
        assert len(server.asked) - before == 2, "only the parts that were missing"
    assert tree(to) == {"big.pt": data}


def test_a_part_of_an_older_version_is_thrown_away(ended_on_one, muster, to, small_parts):
    node, _, allocation_id = ended_on_one
    data = bytes(2 * PART)
    node.send_outputs(allocation_id, [in_parts("big.pt", data)])
    (to / ".big.pt.part").write_bytes(b"x" * PART)
    with FileServer([node], [data[:PART]]):
        done = ok(muster("outputs", "get", "1", "-o", str(to)))
    assert "changed meanwhile" in done.stderr
    assert tree(to) == {"big.pt": data}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("outputs", "get", "1", "nothing"), "No output is called 'nothing'."),
        (("outputs", "get", "1.7"), "Experiment 1 has no trial 7."),
        (("outputs", "get", "99"), "There is no experiment 99."),
    ],
)
def test_what_does_not_exist_is_named_with_a_hint(
    ended_on_one, muster, to, monkeypatch, arguments, message
):
    node, _, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept("a")])
    monkeypatch.chdir(to)
    refused = muster(*arguments)
    assert isinstance(refused.exception, CommandFailure | ClientError)
    assert message in refused.exception.message
    assert list(to.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a\x00b", "", "escape/x"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "escape").symlink_to(tmp_path)
    with pytest.raises(NotSafe, match="outside of"):
        fetching._path_in(folder, name)


def test_old_or_large_outputs_are_shown_before_they_are_deleted(ended_on_one, muster):
    node, experiment_id, allocation_id = ended_on_one
    node.send_outputs(allocation_id, [kept("a", b"x" * 2000), kept("b", b"y" * 1000)])
    name = str(experiment_id)
    dry = ok(muster("outputs", "clean", name, "--max-size", "2.5kB", "--dry-run"))
    assert re.search(rf"{name}\.1 +2 +3\.0 kB .* delete +the oldest while", dry.stdout)
    assert "The outputs of 1 of 1 trial would be deleted, 3.0 kB; 0 B would stay" in dry.stderr
    stays = ok(muster("outputs", "clean", name, "--older-than", "30d", "--dry-run", "--json"))
    assert json.loads(stays.stdout)["num_dropped"] == 0
    assert "2 files kept" in ok(muster("outputs", "list", name)).stderr
    done = ok(muster("outputs", "clean", name, "--max-size", "0"))
    assert "Deleted the outputs of 1 trial, 3.0 kB; agents delete the files." in done.stderr
    assert "Its outputs, 3.0 kB, were deleted" in ok(muster("outputs", "list", name)).stderr
    assert isinstance(muster("outputs", "clean", name).exception, CommandFailure)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--older-than", "30", "write an age such as"),
        ("--older-than", "0d", "write an age such as"),
        ("--older-than", "9999w", "write an age such as"),
        ("--max-size", "much", "write a size such as"),
    ],
)
def test_an_age_or_size_that_is_none_is_refused(muster, option, value, says):
    refused = muster("outputs", "clean", "1", option, value)
    assert refused.exit_code == 2
    assert says in " ".join(refused.stderr.replace("│", " ").split())
