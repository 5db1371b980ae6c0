"""What keeps a checkout from being set up is one sentence; a second run does nothing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
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
