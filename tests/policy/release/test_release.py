"""The wheels of a release: the same bytes from the same files, with an SBOM that lists what they depend on."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import muster

ROOT = Path(__file__).resolve().parents[3]
TIME = 1_750_000_000
INFO = f"muster_train-{muster.__version__}.dist-info"
SBOM = f"{INFO}/sboms/muster-train.cdx.json"
LISTED_EXTRAS = ("server", "agent", "cli", "local")
PLATFORMS = [
    {
        "python_version": version,
        "python_full_version": f"{version}.{patch}",
        "sys_platform": name,
        "platform_system": system,
    }
    for version, patch in [("3.11", 2), ("3.11", 9), ("3.14", 0)]
    for name, system in [("linux", "Linux"), ("darwin", "Darwin"), ("win32", "Windows")]
]


class Built(NamedTuple):
    files: list[Path]
    differences: list[str]

    def wheel(self, name: str) -> zipfile.ZipFile:
        (path,) = (
            file
            for file in self.files
            if file.name.startswith(f"{name}-") and file.suffix == ".whl"
        )
        return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def release() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield SimpleNamespace(
            **runpy.run_path(str(ROOT / "scripts/release.py"), run_name="release")
        )


@pytest.fixture(scope="module")
def built(release: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Two builds of the Python part; `scripts/release --check` builds the dashboard twice, too."""
    return Built(*release.check(tmp_path_factory.mktemp("release"), TIME, built=True))


def test_the_chart_is_packed_as_helm_packs_one(built: Built) -> None:
    (path,) = (file for file in built.files if file.suffix == ".tgz")
    assert path.name == f"muster-{muster.__version__}.tgz"
    chart = ROOT / "deploy/helm/muster"
    with tarfile.open(path) as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert {member.mtime for member in members.values()} == {TIME}
        assert {
            name: file.read() for name in members if (file := archive.extractfile(name)) is not None
        } == {
            f"muster/{file.relative_to(chart)}": file.read_bytes()
            for file in chart.rglob("*")
            if file.is_file()
        }
    if shutil.which("helm"):
        shown = subprocess.run(
            ["helm", "show", "chart", str(path)], capture_output=True, text=True, check=True
        )
        assert "name: muster" in shown.stdout


@pytest.fixture(scope="module")
def sbom(built: Built) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(built.wheel("muster_train").read(SBOM))
    return content


def components(sbom: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in sbom["components"] if one.get("purl", "").startswith(f"pkg:{kind}/")]


def test_two_builds_in_different_places_have_the_same_bytes(built: Built) -> None:
    assert built.differences == []
    version = muster.__version__
    assert [file.name for file in built.files] == [
        f"muster-{version}.tgz",
        f"muster_models-{version}-py3-none-any.whl",
        f"muster_train-{version}-py3-none-any.whl",
        f"muster_train-{version}.cdx.json",
    ]


def test_no_folder_of_this_machine_is_in_a_wheel(built: Built) -> None:
    places = [os.fsencode(place) for place in (ROOT, sys.prefix, built.files[0].parents[1])]
    for name in ("muster_train", "muster_models"):
        wheel = built.wheel(name)
        found = [one for one in wheel.namelist() if any(p in wheel.read(one) for p in places)]
        assert found == []


def test_the_wheel_records_its_sbom_and_the_file_beside_it_is_the_same(built: Built) -> None:
    wheel = built.wheel("muster_train")
    content = wheel.read(SBOM)
    rows = {
        row[0]: row[1:] for row in csv.reader(wheel.read(f"{INFO}/RECORD").decode().splitlines())
    }
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert rows[SBOM] == [f"sha256={digest}", str(len(content))]
    assert built.files[-1].read_bytes() == content


def test_the_sbom_follows_its_schema_and_is_dated_by_the_commit(sbom: dict[str, Any]) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom)) is None
    assert sbom["specVersion"] == "1.6"
    assert sbom["metadata"]["timestamp"] == "2025-06-15T15:06:40+00:00"
    assert sbom["metadata"]["component"]["version"] == muster.__version__


def needed(extras: tuple[str, ...], platform: dict[str, str]) -> set[str]:
    """Return what the installed packages say that these extras of the wheel need on a platform."""
    waiting = [Requirement(f"muster-train[{','.join(extras)}]")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        for extra in ["", *requirement.extras]:
            key = (canonicalize_name(requirement.name), extra)
            if key in seen:
                continue
            seen.add(key)
            try:
                lines = importlib.metadata.requires(requirement.name) or []
            except importlib.metadata.PackageNotFoundError:
                continue  # of another platform
            waiting += [
                one
                for one in map(Requirement, lines)
                if one.marker is None or one.marker.evaluate({**platform, "extra": extra})
            ]
    return {name for name, _ in seen} - {"muster-train"}


def test_the_sbom_has_the_locked_dependencies_of_the_extras_and_nothing_else(
    sbom: dict[str, Any],
) -> None:
    python = components(sbom, "pypi")
    assert {one["name"] for one in python} == set[str]().union(
        *(needed(LISTED_EXTRAS, platform) for platform in PLATFORMS)
    )
    lock = (ROOT / "requirements.lock").read_text()
    for one in python:
        entries = re.findall(
            rf"^{one['name']}=={re.escape(one['version'])} .*\n(?:    --hash.*\n)+",
            lock,
            re.MULTILINE,
        )
        assert len(entries) == 1, one["name"]
        assert {each["content"] for each in one["hashes"]} == {
            *re.findall(r"sha256:(\w+)", entries[0])
        }
    for extra in LISTED_EXTRAS:
        names = {
            one["name"]
            for one in python
            for each in one["properties"]
            if each["name"] == "muster:extras" and extra in each["value"].split(",")
        }
        assert names == set[str]().union(*(needed((extra,), one) for one in PLATFORMS)), extra


def test_the_sbom_has_the_packages_of_the_dashboard_with_their_licenses(
    built: Built, sbom: dict[str, Any]
) -> None:
    shipped = built.wheel("muster_train").read("muster_server/static/licenses.txt").decode()
    titles = {text.split("\n", 1)[0] for text in shipped.split(f"\n{'=' * 80}\n\n")}
    npm = components(sbom, "npm")
    assert len(npm) > 30
    assert titles == {
        f"{'/'.join(filter(None, (one.get('group'), one['name'])))} {one['version']} ({license_of(one)})"
        for one in npm
    }
    lock = json.loads((ROOT / "frontend/package-lock.json").read_text())["packages"]
    react = next(one for one in npm if one["purl"].startswith("pkg:npm/react@"))
    digest = base64.b64decode(lock["node_modules/react"]["integrity"].removeprefix("sha512-")).hex()
    assert react["hashes"] == [{"alg": "SHA-512", "content": digest}]


def license_of(component: dict[str, Any]) -> str:
    (one,) = component["licenses"]
    text: str = (
        one["expression"]
        if "expression" in one
        else one["license"].get("id") or one["license"]["name"]
    )
    return text


def test_the_dependencies_in_the_sbom_are_those_of_its_components(sbom: dict[str, Any]) -> None:
    edges = {one["ref"]: one.get("dependsOn", []) for one in sbom["dependencies"]}
    waiting, reached = [sbom["metadata"]["component"]["bom-ref"]], set()
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += edges[ref]
    refs = {one["bom-ref"] for one in sbom["components"]}
    assert reached == refs | {sbom["metadata"]["component"]["bom-ref"]}


def test_a_lock_without_a_dependency_is_an_error(release: SimpleNamespace) -> None:
    from sbom import choose

    extras = {name: [] for name in ("server", "agent", "local")} | {"cli": ["typer>=1"]}
    with pytest.raises(SystemExit, match="has no typer, which the extra cli asks for"):
        choose([], extras)


def test_what_differs_is_named(release: SimpleNamespace, tmp_path: Path) -> None:
    def wheel(folder: str, *members: tuple[str, str, int]) -> Path:
        path = tmp_path / folder / "a-1-py3-none-any.whl"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            for name, text, year in members:
                archive.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), text)
        return path

    one = wheel("one", ("x", "text", 2020), ("y", "text", 2020), ("z", "text", 2020))
    other = wheel("other", ("w", "text", 2020), ("x", "Text", 2020), ("y", "text", 2021))
    assert release.differences(one, one) == []
    assert release.differences(one, other) == [
        "a-1-py3-none-any.whl: w: only in one of them",
        "a-1-py3-none-any.whl: z: only in one of them",
        "a-1-py3-none-any.whl: x: its content differs",
        "a-1-py3-none-any.whl: y: its time differs",
    ]
    turned = wheel("turned", ("y", "text", 2020), ("x", "text", 2020), ("z", "text", 2020))
    assert release.differences(one, turned) == [
        "a-1-py3-none-any.whl: the order or compression of its members differs"
    ]


def test_uncommitted_changes_and_a_file_as_the_folder_are_refused(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "scripts").mkdir()
    for name in ("release.py", "sbom.py", "bootstrap.py"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    (tmp_path / "README.md").write_text("a\n")
    git("init", "-q")
    git("add", "scripts/release.py", "README.md")
    git("commit", "-q", "-m", "all")
    (tmp_path / "README.md").write_text("b\n")
    done = subprocess.run(
        [sys.executable, "scripts/release.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "1 file differs from the commit: README.md" in done.stderr
    assert "commit or stash" in done.stderr
    assert not (tmp_path / "dist").exists()

    done = subprocess.run(
        [sys.executable, "scripts/release.py", "--out", "README.md"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--out is 'README.md', a file; name a folder" in done.stderr


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no Debian, as the images are")
def test_the_sbom_of_an_image_lists_what_is_installed_in_it(
    release: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The images are this machine: what runs in them, runs here.
    docker = tmp_path / "docker"
    docker.write_text(
        '#!/bin/sh\n[ "$5" = lab/muster-agent:1.2 ] || exit 125\nshift 6\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made = release.describe_image("lab/muster-agent:1.2", tmp_path, TIME)
    assert made.name == "muster-agent-1.2.cdx.json"
    text = made.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listed = {one.get("purl") for one in json.loads(text)["components"]}
    assert f"pkg:pypi/pydantic@{importlib.metadata.version('pydantic')}" in listed
    assert any(purl.startswith("pkg:deb/debian/dpkg@") for purl in listed)
    made.unlink()
    assert release.describe_image("lab/muster-agent:1.2", tmp_path, TIME).read_text() == text
    with pytest.raises(SystemExit, match="cannot be run"):
        release.describe_image("lab/none:1", tmp_path, TIME)


def test_an_image_that_is_not_what_the_lock_says_is_named(release: SimpleNamespace) -> None:
    compare = release.differences_from_lock
    lock = "pydantic==2.9.0 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via muster-train\n"
    assert compare({"python": [["Pydantic", "2.9.0"], ["torch", "2.13.0"]]}, lock) == []
    (line,) = compare({"python": [["pydantic", "2.8.1"]]}, lock)
    assert line == "pydantic 2.8.1 is installed, and requirements.lock has 2.9.0"
