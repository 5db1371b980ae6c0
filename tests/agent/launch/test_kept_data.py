"""Data sets that a node fetches or makes before a start, and keeps: real shims and commands."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from muster.document.running import DataSection
from muster_agent.environments.content import key_of_data
from muster_agent.isolation.walls import Isolation
from muster_agent.shim.preparation.data_sets import read_data
from support.buckets import buckets

READS = """
import json, os, pathlib
folder = pathlib.Path(os.environ["MUSTER_DATA_TRAIN"])
files = sorted(p for p in folder.rglob("*") if p.is_file())
print(json.dumps({p.name: p.read_text() for p in files}))
"""
WRITES = (
    READS
    + """
for write in (lambda: (folder / "mine").touch(), lambda: files[0].write_text("bad")):
    try: write()
    except OSError as error: print(type(error).__name__)
"""
)
MAKE = "import os, pathlib; pathlib.Path(os.environ['MUSTER_DATA_TRAIN'], 'a').write_text('{}')"


class Node:
    """Jobs that start one after the other on a node that keeps data."""

    def __init__(self, shims: Any) -> None:
        self._shims = shims
        self.home = shims.home.parent / "node"
        self._num = 0

    def start(self, section: dict[str, Any], **changes: Any) -> Any:
        self._num += 1
        script = changes.pop("script", READS)
        options = {"environments": str(self.home / "environments"), **changes.pop("options", {})}
        config = {"name": "d", "data": {"train": section, **changes.pop("data", {})}}
        given = {"slots": [0], "world_size": 1, "launcher": "plain", "config": config, **changes}
        return self._shims(script, allocation_id=f"a{self._num}", options=options, **given)

    def read(self, section: dict[str, Any], **changes: Any) -> tuple[dict[str, str], Any]:
        """What a job finds in the data set, and what it says of it."""
        shim = self.start(section, **changes)
        ready = shim.wait_state("READY")
        shim.start()
        assert shim.wait_exit().cause == "success", shim.log(0, "stderr").read_text()
        return json.loads(shim.printed(0)), ready.environment.data["train"]

    def refusal(self, section: dict[str, Any], **changes: Any) -> Any:
        return self.start(section, **changes).wait_state("PREPARE_FAILED")


@pytest.fixture
def node(shims: Any) -> Node:
    return Node(shims)


def made(text: str, code: Path, *, version: str = "1", name: str = "make.py") -> dict[str, Any]:
    """A data set that a file of the code makes, which leaves a line each time it does."""
    (code / name).write_text(MAKE.format(text) + "; open('made', 'a').write('x')\n")
    return {"command": f"{sys.executable} {name}", "version": version}


def num_made(code: Path) -> int:
    return len((code / "made").read_text())


def test_what_a_command_makes_is_made_once_for_the_same_command_version_and_file(
    node: Node, shims: Any
) -> None:
    section = made("one", shims.code)
    files, found = node.read(section)
    assert files == {"a": "one"}
    assert (found.num_files, found.size_bytes, found.version) == (1, 3, "1")
    same, again = node.read(section)
    assert (same, again) == (files, found)
    assert num_made(shims.code) == 1
    # Another version, and another content of the file that the command names.
    assert node.read({**section, "version": "2"})[0] == files
    assert num_made(shims.code) == 2
    other, changed = node.read(made("two", shims.code))
    assert other == {"a": "two"}
    assert changed.digest != found.digest
    # The first is kept as well.
    assert node.read(made("one", shims.code))[1] == found
    assert num_made(shims.code) == 3


def test_a_document_may_ask_for_the_files_that_are_made(node: Node, shims: Any) -> None:
    section = made("one", shims.code)
    _, found = node.read(section)
    assert node.read({**section, "digest": found.digest})[1] == found
    wrong = "sha256:" + "0" * 64
    message = node.refusal({**section, "digest": wrong}).message
    assert message.startswith(f"the data set train ({found.path}) has the digest {found.digest}")


def test_a_command_sees_the_data_sets_before_it(node: Node, shims: Any) -> None:
    words = shims.home.parent / "words"
    words.mkdir()
    (words / "w").write_text("hello")
    data = {
        "raw": {"folder": str(words)},
        "clean": {"command": "tr a-z A-Z < $MUSTER_DATA_RAW/w > $MUSTER_DATA_CLEAN/w"},
    }
    section = {"command": "cat $MUSTER_DATA_CLEAN/w $MUSTER_DATA_RAW/w > $MUSTER_DATA_TRAIN/all"}
    assert node.read(section, data=data)[0] == {"all": "HELLOhello"}
    # What is made from another one follows it.
    (words / "w").write_text("bye")
    assert node.read(section, data=data)[0] == {"all": "BYEbye"}
    data["clean"]["version"] = "2"
    data["clean"]["command"] += "; echo . >> $MUSTER_DATA_CLEAN/w"
    assert node.read(section, data=data)[0] == {"all": "BYE.\nbye"}


@pytest.mark.parametrize(
    ("command", "why", "blames"),
    [
        (
            "echo no such file >&2; exit 3",
            "the command of the data set train `echo no such file >&2; exit 3` exited with code 3: "
            "no such file",
            "document",
        ),
        ("exit 75", "the command of the data set train `exit 75` exited with code 75: no output", "node"),
        ("true", "the command of the data set train `true` has written nothing to $MUSTER_DATA_TRAIN", "document"),
        (
            "ln -s /etc $MUSTER_DATA_TRAIN/etc",
            "the command has left a link, etc, that leads out of the data set",
            "document",
        ),
        ("echo 'a", "the command of the data set train `echo 'a` exited with code 2", "document"),
    ],
)  # fmt: skip
def test_a_data_set_that_cannot_be_made_is_refused_and_leaves_nothing(
    node: Node, command: str, why: str, blames: str
) -> None:
    failed = node.refusal({"command": command})
    assert failed.message.startswith(why)
    assert (failed.blames, failed.passes) == (blames, blames == "node")
    kept = [path.suffix for path in (node.home / "data").iterdir()]
    assert kept == [".lock"]


def test_a_disk_without_room_refuses_before_anything_is_made(node: Node, shims: Any) -> None:
    section = made("one", shims.code)
    node.read(section)
    failed = node.refusal({**section, "version": "2", "size": "900TB"})
    assert failed.message.startswith("the data set train needs 900,000.1 GB, and only ")
    assert num_made(shims.code) == 1
    # The one of before had to go.
    assert not list((node.home / "data").glob("*.complete"))


def test_files_that_somebody_has_changed_are_made_again(node: Node, shims: Any) -> None:
    section = made("one", shims.code)
    _, found = node.read(section)
    file = Path(found.path, "a")
    assert [stat.S_IMODE(p.stat().st_mode) & 0o222 for p in (file, file.parent)] == [0, 0]
    file.chmod(0o644)
    file.write_text("bad")
    failed = node.refusal(section)
    assert failed.message.startswith("the files of the data set train have been changed")
    assert (failed.blames, failed.passes) == ("node", True)
    assert node.read(section) == ({"a": "one"}, found)
    assert num_made(shims.code) == 2


def test_two_jobs_that_need_the_same_make_it_once(node: Node, shims: Any, wait_for: Any) -> None:
    section = made("one", shims.code)
    section["command"] += "; while [ ! -e go ]; do sleep 0.05; done"
    first, second = node.start(section), node.start(section)
    wait_for(lambda: (shims.code / "made").exists())
    log = second.folder.logs / "launcher" / "stdout.log"
    other = first.folder.logs / "launcher" / "stdout.log"
    waits = "waiting for the same data set train, which another job is building"
    wait_for(lambda: any(waits in file.read_text() for file in (log, other) if file.exists()))
    (shims.code / "go").touch()
    assert first.wait_state("READY").environment.data == second.wait_state("READY").environment.data
    assert num_made(shims.code) == 1


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """Address of a server of one file."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            if self.path == "/short":
                self.send_response(200)
                self.send_header("Content-Length", "100")
                self.end_headers()
                self.wfile.write(b"1234")
            else:
                super().do_GET()

    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "data.txt").write_text("from the web")
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "web")
    ) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_url_is_fetched_once(node: Node, web: str, tmp_path: Path) -> None:
    section = {"url": f"{web}/data.txt", "cached": True}
    files, found = node.read(section)
    assert files == {"data.txt": "from the web"}
    (tmp_path / "web" / "data.txt").write_text("changed")
    assert node.read(section) == (files, found)
    assert node.read({**section, "version": "2"})[0] == {"data.txt": "changed"}


def test_a_url_that_cannot_be_fetched_is_refused(node: Node, web: str) -> None:
    gone = node.refusal({"url": f"{web}/nothing", "cached": True})
    assert gone.message == (
        f"the command of the data set train `fetch {web}/nothing` exited with code 1: "
        "the server answered 404 File not found"
    )
    assert gone.blames == "document"
    unknown = node.refusal({"url": "nowhere://a/b", "cached": True})
    assert "Protocol not known: nowhere" in unknown.message


def test_a_download_that_ends_early_is_tried_again_and_then_elsewhere(node: Node, web: str) -> None:
    failed = node.refusal({"url": f"{web}/short", "cached": True})
    assert failed.message.endswith("the server sent 4 of 100 bytes")
    assert (failed.blames, failed.passes) == ("node", True)
    log = (node._shims.started[-1].folder.logs / "launcher" / "stdout.log").read_text()
    assert log.count("the server sent 4 of 100 bytes") > 1


def test_an_object_store_is_read_with_what_the_job_has(node: Node) -> None:
    with buckets("sets") as store:
        store.put("s3://sets/words/a", b"one")
        store.put("s3://sets/words/more/b", b"two")
        section = {"url": "s3://sets/words", "cached": True}
        assert node.read(section, variables=store.environment)[0] == {"a": "one", "b": "two"}
        wrong = {"url": "s3://sets/nothing", "cached": True}
        failed = node.refusal(wrong, variables=store.environment)
        assert "exited with code 1: FileNotFoundError" in failed.message


def test_projects_behind_walls_have_data_sets_of_their_own(
    node: Node, shims: Any, sandbox: Isolation
) -> None:
    options = {"isolation": sandbox}
    section = {"command": "echo made by $(id -u) > $MUSTER_DATA_TRAIN/a"}
    shim = node.start(section, options=options, project_id=1, script=WRITES)
    path = Path(shim.wait_state("READY").environment.data["train"].path)
    assert path.parent == node.home / "data" / "project-1"
    shim.start()
    assert shim.wait_exit().cause == "success", shim.words()
    files, *refused = shim.printed(0).splitlines()
    uid = os.getuid() if sandbox.uid is None else sandbox.uid
    assert json.loads(files) == {"a": f"made by {uid}\n"}
    assert refused == ["OSError", "OSError"] or refused == ["PermissionError", "PermissionError"]
    other = node.start(section, options=options, project_id=2)
    assert Path(other.wait_state("READY").environment.data["train"].path).parent.name == "project-2"


@pytest.mark.parametrize(
    ("command", "is_named"),
    [
        ("python make.py", True),
        ("python ./make.py --fast", True),
        ("python -m tools.make", True),
        ("python /etc/hostname", False),
        ("python ../make.py", False),
        ("true", False),
    ],
)
def test_the_name_of_a_data_set_depends_on_the_files_of_the_code_that_are_named(
    tmp_path: Path, command: str, is_named: bool
) -> None:
    code = tmp_path / "code"
    (code / "tools").mkdir(parents=True)
    files = [code / "make.py", code / "tools" / "make.py", tmp_path / "make.py"]
    for file in files:
        file.write_text("1")
    first = key_of_data(command, "", code=code)
    assert key_of_data(command, "2", code=code) != first
    for file in files:
        file.write_text("2")
    assert (key_of_data(command, "", code=code) != first) == is_named


def test_what_is_kept_counts_as_a_folder(tmp_path: Path) -> None:
    assert read_data({"a": DataSection(command="true")}, cache=tmp_path, tell=print) == {}
