"""What keeps a checkout from being set up is one sentence; a second run does nothing."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "bootstrap.py"


@pytest.fixture
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_an_old_python_is_told_so(tmp_path: Path) -> None:
    # The check stands before anything that an old Python lacks at run time.
    code = f"import sys; sys.version_info = (3, 9, 18); exec(open({str(SCRIPT)!r}).read())"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert result.stderr.startswith("error: Python 3.11 or newer is needed, and this is 3.9")


def test_a_wrong_choice_of_torch_is_told(tmp_path: Path) -> None:
    result = run(MUSTER_VENV=str(tmp_path / "venv"), MUSTER_TORCH="gpu")
    assert result.returncode == 1
    assert "MUSTER_TORCH is 'gpu'" in result.stderr
    assert "cpu, cuda or skip" in result.stderr


def test_a_full_disk_is_told_before_anything_is_written(
    bootstrap: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap.DISK_NEEDED_GB = 10**9
    with pytest.raises(SystemExit):
        bootstrap.check_place(tmp_path / "venv")
    assert "GB are free" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_permission_is_told(
    bootstrap: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(SystemExit):
        bootstrap.check_place(tmp_path / "venv")
    assert f"no write permission in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("WARNING: Retrying ... NewConnectionError(...)", "package index cannot be reached"),
        ("npm error code ENOTFOUND", "package index cannot be reached"),
        ("error: error sending request\n  cause: dns error", "package index cannot be reached"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("ssl.SSLError: CERTIFICATE_VERIFY_FAILED", "certificate"),
        ("error sending request: invalid peer certificate: UnknownIssuer", "certificate"),
        ("EACCES: permission denied", "no write permission"),
        ("error: Failed to initialize cache at `/.cache/uv`", "no write permission"),
        ("something else", "failed"),
    ],
)
def test_what_the_installers_print_becomes_one_sentence(
    bootstrap: ModuleType, capsys: pytest.CaptureFixture[str], output: str, said: str
) -> None:
    with pytest.raises(SystemExit):
        bootstrap.explain_and_fail("installing the packages", output, Path("log"))
    errors = [x for x in capsys.readouterr().err.splitlines() if x.startswith("error:")]
    assert len(errors) == 1
    assert said in errors[0]


def test_commands_run_until_one_succeeds_and_the_last_failure_is_reported(
    bootstrap: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = bootstrap.Runner(tmp_path / "log")
    runner.run("trying", ["sh", "-c", "echo one; exit 1"], ["echo", "two"], ["echo", "three"])
    assert [x for x in runner.log.read_text().splitlines() if x and x[0] != "$"] == ["one", "two"]
    with pytest.raises(SystemExit):
        runner.run("trying", ["sh", "-c", "echo ENOSPC; exit 1"], ["sh", "-c", "echo five; exit 5"])
    said = capsys.readouterr().err
    assert "five" in said
    assert "error: trying failed.\n" in said


OFFLINE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_RETRIES": "0",
    "PIP_NO_CACHE_DIR": "1",
    "UV_HTTP_RETRIES": "0",
    "UV_NO_CACHE": "1",
}


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment with uv and nothing else, and this one's pip."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    (folder / "bin" / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    return folder


def test_uv_gets_the_settings_of_pip(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://one.test/simple\nfind-links =\n    /a\n    /b\n"
        "[install]\nindex-url = https://two.test/simple\n"
        "extra-index-url =\n    https://three.test\n    https://four.test\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_CERT", "/ca.pem")
    settings = bootstrap.uv_settings(Path(sys.executable))
    assert settings["UV_DEFAULT_INDEX"] == "https://two.test/simple"
    assert settings["UV_INDEX"] == "https://three.test https://four.test"
    assert settings["UV_FIND_LINKS"] == "/a,/b"
    assert settings["SSL_CERT_FILE"] == "/ca.pem"


def test_an_unreachable_index_is_told(environment: Path) -> None:
    result = run("--no-dashboard", MUSTER_VENV=str(environment), MUSTER_TORCH="skip", **OFFLINE)
    assert result.returncode == 1
    assert "the package index cannot be reached" in result.stderr


def test_a_package_whose_installation_was_interrupted_is_installed_again(environment: Path) -> None:
    (packages,) = environment.glob("lib/python*/site-packages")
    for name in ("whole-1.dist-info", "half-1.dist-info"):
        (packages / name).mkdir()
    (packages / "whole-1.dist-info" / "INSTALLER").write_text("uv")
    run("--no-dashboard", MUSTER_VENV=str(environment), MUSTER_TORCH="skip", **OFFLINE)
    assert [path.name for path in packages.glob("*.dist-info")] == ["whole-1.dist-info"]


def test_a_missing_program_is_told(
    bootstrap: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bootstrap.Runner(tmp_path / "log").run("trying", [str(tmp_path / "uv")])
    assert f"hint: remove {tmp_path} and run this again" in capsys.readouterr().err


def test_a_second_run_does_nothing_and_is_quick(bootstrap: ModuleType, tmp_path: Path) -> None:
    stamps = bootstrap.Stamps(tmp_path)
    value = bootstrap.digest([ROOT / "pyproject.toml"], "cpu")
    assert not stamps.is_current("packages", value)
    stamps.write("packages", value)
    assert stamps.is_current("packages", value)
    assert bootstrap.digest([ROOT / "pyproject.toml"], "skip") != value


PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "1"
[project.optional-dependencies]
local = []
train = []
[dependency-groups]
build = []
torch = ["torch==9.9"]
"""
BACKEND = """
import zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(f"{folder}/tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        wheel.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-1.dist-info/RECORD", "")
    return "tiny-1-py3-none-any.whl"
"""


def write_wheel(folder: Path, name: str, version: str) -> None:
    """Write a package without any content."""
    information = f"{name}-{version}.dist-info"
    tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(f"{information}/WHEEL", tag)
        wheel.writestr(f"{information}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A package index on this machine, and its folder."""
    folder = tmp_path / "index" / "simple"
    folder.mkdir(parents=True)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple", folder
        server.shutdown()


def python_of(user: int | None) -> str:
    """A Python that a user may run."""
    for python in (sys.executable, "/usr/bin/python3"):
        check = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
        with contextlib.suppress(OSError):
            if subprocess.run([python, "-c", check], user=user, check=False).returncode == 0:
                return python
    pytest.skip("no Python that an ordinary user may run")


@pytest.mark.parametrize(
    "user",
    [
        None,
        pytest.param(
            65_534, marks=pytest.mark.skipif(os.getuid() != 0, reason="only root is another user")
        ),
    ],
)
def test_torch_comes_from_the_configured_index_where_its_own_is_away(
    tmp_path: Path, index: tuple[str, Path], user: int | None
) -> None:
    """A company's network: a mirror of the Python index, and nothing else; also as an ordinary user."""
    python = python_of(user)
    url, wheels = index
    place = Path(tempfile.mkdtemp())
    try:
        root, venv, tools = place / "checkout", place / "venv", place / "tools"
        (root / "scripts").mkdir(parents=True)
        shutil.copy(SCRIPT, root / "scripts")
        (root / "pyproject.toml").write_text(PROJECT)
        (root / "backend.py").write_text(BACKEND)
        (entry,) = re.findall(
            r"^uv==.*\n(?:    .*\n)+", (ROOT / "requirements.lock").read_text(), re.MULTILINE
        )
        (root / "requirements.lock").write_text(entry)
        subprocess.run([python, "-m", "venv", "--without-pip", str(venv)], check=True)
        tools.mkdir()
        for name in ("pip", "pip-*.dist-info", "uv", "uv-*.dist-info"):
            for source in Path(sysconfig.get_path("purelib")).glob(name):
                shutil.copytree(source, tools / source.name)
        (packages,) = venv.glob("lib/python*/site-packages")
        (packages / "others.pth").write_text(str(tools))
        shutil.copy(Path(sys.executable).with_name("uv"), venv / "bin" / "uv")
        if user is not None:
            place.chmod(0o755)
            for path in (place, *place.rglob("*")):
                os.chown(path, user, user, follow_symlinks=False)

        def bootstrap() -> subprocess.CompletedProcess[str]:
            away = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
            variables = {"PATH": "/usr/bin:/bin", "HOME": str(place), "MUSTER_VENV": str(venv)}
            return subprocess.run(
                [python, str(root / "scripts" / "bootstrap.py"), "--no-dashboard"],
                env=variables
                | OFFLINE
                | away
                | {"PIP_INDEX_URL": url, "UV_CACHE_DIR": str(place / "c")},
                user=user,
                cwd=place,
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )

        without = bootstrap()
        assert without.returncode == 1, without.stderr
        assert "installing the checkout: done" in without.stderr
        assert "2.7 GB to download" in without.stderr
        assert "error: installing PyTorch 9.9 failed" in without.stderr
        assert (packages / "tiny-1.dist-info").is_dir(), "what is installed stays for the next try"
        write_wheel(wheels / "torch", "torch", "9.9")
        done = bootstrap()
        assert done.returncode == 0, done.stderr
        assert (packages / "torch-9.9.dist-info").is_dir()
    finally:
        shutil.rmtree(place)
