"""What is in the wheel: three packages, the migrations, the dashboard, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import muster
from muster.launch.variables import SITE_FILE, SITE_LINE

ROOT = Path(__file__).resolve().parents[3]
DASHBOARD = "muster_server/static/index.html"
ANSWERS = "muster/client/schema.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=900,
    )
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def build(tree: Path, target: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=tree,
        env={**os.environ, **env},
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """A checkout without a dashboard, whose packages are there."""
    tree = tmp_path / "tree"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, tracked):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "bench/")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    (tree / "frontend/node_modules").symlink_to(ROOT / "frontend/node_modules")
    return tree


def test_without_node_it_fails_in_a_sentence_and_an_editable_install_does_not(
    unbuilt: Path, tmp_path: Path
) -> None:
    for target in ("wheel", "sdist"):
        failed = build(unbuilt, target, tmp_path, PATH="/nowhere")
        assert failed.returncode == 1
        assert "The dashboard is not built" in failed.stderr
        assert "npm run build" in failed.stderr
        assert "Traceback" not in failed.stderr
    assert build(unbuilt, "wheel:editable", tmp_path, PATH="/nowhere").returncode == 0
    (path,) = tmp_path.glob("*.whl")
    assert DASHBOARD not in zipfile.ZipFile(path).namelist()


def test_a_build_installs_what_the_pages_are_made_from_unless_the_dashboard_is_there(
    unbuilt: Path,
) -> None:
    def wanted() -> str:
        code = "import hatchling.build as b; print(b.get_requires_for_build_wheel())"
        asked = [sys.executable, "-c", code]
        return subprocess.run(asked, cwd=unbuilt, capture_output=True, text=True, check=True).stdout

    assert "fastapi" in wanted()
    assert "typer" in wanted()
    (unbuilt / "server/muster_server/static").mkdir()
    (unbuilt / "server/muster_server/static/index.html").touch()
    assert "fastapi" not in wanted()


def test_an_sdist_builds_the_dashboard_and_a_wheel_is_made_from_it_without_node(
    unbuilt: Path, tmp_path: Path
) -> None:
    made = build(unbuilt, "sdist", tmp_path)
    assert made.returncode == 0, made.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path], check=True)
    tree = archive.with_name(archive.name.removesuffix(".tar.gz"))
    assert not (tree / "frontend/node_modules").exists()
    made = build(tree, "wheel", tmp_path, PATH="/nowhere")
    assert made.returncode == 0, made.stderr
    (path,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(path).namelist()
    assert {DASHBOARD, ANSWERS} <= {*names}
    assert any(re.fullmatch(r"muster_server/static/assets/.*\.js", name) for name in names)
    # The pages of the documentation, each in a file of its own, and their pictures.
    for part in (
        r"quickstart-.*\.js",
        r"rest-api-.*\.js",
        r"checkpoints\.zh-CN-.*\.js",
        r"overview-dark-.*\.png",
    ):
        assert any(re.fullmatch(rf"muster_server/static/assets/{part}", name) for name in names), (
            part
        )


def test_its_top_level_is_our_three_packages_and_the_site_file(wheel: zipfile.ZipFile) -> None:
    top = {name.split("/")[0] for name in wheel.namelist()}
    info = f"muster_train-{muster.__version__}.dist-info"
    assert top == {"muster", "muster_agent", "muster_server", SITE_FILE, info}
    assert wheel.read(SITE_FILE).decode() == SITE_LINE


@pytest.mark.parametrize("root", ["server/muster_server", "agent/muster_agent", "trainer/muster"])
def test_every_module_is_in_it(wheel: zipfile.ZipFile, root: str) -> None:
    folder = ROOT / root
    tracked = subprocess.run(
        ["git", "ls-files", root], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    expected = {
        path.relative_to(folder.parent).as_posix()
        for line in tracked
        if (path := ROOT / line).is_file()
    }
    assert expected
    assert expected <= set(wheel.namelist())


def test_types_are_for_users_too(wheel: zipfile.ZipFile) -> None:
    for package in ("muster", "muster_agent", "muster_server"):
        assert f"{package}/py.typed" in wheel.namelist()
    assert ANSWERS in wheel.namelist()


def test_the_migrations_are_in_it(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "muster_server/migrations/env.py" in names
    assert any(
        n.startswith("muster_server/migrations/versions/") and n.endswith(".py") for n in names
    )


def test_the_dashboard_is_in_it(wheel: zipfile.ZipFile) -> None:
    assert DASHBOARD in wheel.namelist()


def test_no_tests_caches_or_local_files_are_in_it(wheel: zipfile.ZipFile) -> None:
    strange = [
        name
        for name in wheel.namelist()
        if "__pycache__" in name
        or name.endswith((".pyc", ".db", ".log", ".env"))
        or "node_modules" in name
        or "/tests/" in name
    ]
    assert strange == []


def test_the_sdk_alone_needs_nothing(wheel: zipfile.ZipFile) -> None:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    unconditional = [r for r in metadata.get_all("Requires-Dist") or [] if "extra ==" not in r]
    assert unconditional == []
    assert metadata["Name"] == "muster-train"
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_sdk_imports_on_bare_python(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import muster; "
        "assert muster.__file__.startswith(sys.argv[1]); run = muster.init(); run.log({'a/b': 1.0})"
    )
    # -I -S: no environment, no site-packages.
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )


def test_the_commands_are_declared(wheel: zipfile.ZipFile) -> None:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/entry_points.txt"))
    text = wheel.read(name).decode()
    for line in (
        "muster = muster.cli:main",
        "muster-agent = muster_agent.cli:main",
        "muster-server = muster_server.cli:main",
    ):
        assert line in text


def test_the_changelog_has_this_version() -> None:
    assert f"## [{muster.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
