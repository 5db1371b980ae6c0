"""The core without its parts in an environment of its own, and then the parts beside the same data folder."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.stack import Stack

ROOT = Path(__file__).resolve().parents[2]
MENU = {
    "/": "/cluster",
    "/experiments": "/experiments",
    "/queue": "/queue",
    "/nodes": "/nodes",
    "/compare": "/experiments",
    "/logs": "/experiments",
    "/checkpoints": "/checkpoints",
    "/settings": "/tokens",
    "/docs/contents": "/auth/me",
}
"""Page of the core's menu → what it asks for first."""
OF_MODELS = {"/models": "/models", "/deployments": "/deployments"}


class Installation:
    """An environment with what the core depends on, and with nothing of Muster yet."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", symlinks=True)
        self.folder = folder
        self.python = folder / "env" / "bin" / "python"
        (self.site,) = (folder / "env").glob("lib/python*/site-packages")
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if "muster" not in entry.name and not (self.site / entry.name).exists():
                (self.site / entry.name).symlink_to(entry)

    def install(self, project: Path) -> None:
        """Install the wheel of a project; it has no scripts that anything here needs."""
        made = self.folder / f"wheel-of-{project.name}"
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
        subprocess.run(build, cwd=project, check=True, capture_output=True, timeout=100)
        (wheel,) = made.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site)

    def muster(self, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, "-m", "muster.cli", *words],
            env=Stack.environment(home),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


@pytest.fixture
def stack(tmp_path: Path, installation: Installation) -> Iterator[Stack]:
    stack = Stack(tmp_path / "home", agents=0, python=str(installation.python))
    yield stack
    stack.close()


def statuses(stack: Stack, pages: dict[str, str]) -> dict[str, int]:
    """Return the status of what each page asks for first, or of the page itself if that fails."""
    headers = {"Authorization": f"Bearer {stack.access['token']}"}
    with httpx.Client(base_url=stack.url, headers=headers) as client:
        assert client.get("/api/v1/auth/me").status_code == 200
        shown = {page: client.get(page, headers={"Accept": "text/html"}) for page in pages}
        assert {each.status_code for each in shown.values()} == {200}
        return {page: client.get(f"/api/v1{asks}").status_code for page, asks in pages.items()}


def parts_of(stack: Stack) -> list[str]:
    with stack.client() as client:
        found: list[str] = client.get("/auth/state")["parts"]
    return found


def refusal_of_a_model(stack: Stack) -> str:
    """What is said of a job that reads a version of a model that nobody has made."""
    with stack.client() as client:
        preview = client.preview("name: test\nevaluate: {model: 'digits:3', data: digits}\n")
    (error,) = preview["errors"]
    return str(error["message"])


def test_the_core_runs_alone_and_then_with_its_parts(
    installation: Installation, stack: Stack
) -> None:
    installation.install(ROOT)
    stack.start()
    assert parts_of(stack) == []
    assert set(statuses(stack, MENU).values()) == {200}
    assert set(statuses(stack, OF_MODELS).values()) == {404}
    refused = installation.muster(stack.home, "model", "list")
    assert refused.returncode == 1
    assert "needs the package muster-models" in refused.stderr
    assert " deploy " not in installation.muster(stack.home, "--help").stdout
    assert refusal_of_a_model(stack) == (
        "This server has no model registry: the package muster-models is not installed."
    )
    assert not (stack.home / "router.port").exists(), "nobody would tell the router what to do"
    assert stack.interrupt() == 0

    installation.install(ROOT / "parts" / "models")
    stack.start()
    assert parts_of(stack) == ["models"]
    assert set(statuses(stack, MENU | OF_MODELS).values()) == {200}
    listed = installation.muster(stack.home, "model", "list")
    assert listed.returncode == 0, listed.stderr
    assert " deploy " in installation.muster(stack.home, "--help").stdout
    assert refusal_of_a_model(stack).startswith("there is no model digits")
