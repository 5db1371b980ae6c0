"""What is installed for tests, and what becomes of them where that does not help."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support import needs


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs; `apt-get install` adds those whose packages are listed in `packages`."""
    (tmp_path / "packages").touch()
    apt = tmp_path / "apt-get"
    apt.write_text(
        f'#!/bin/sh\n[ "$2" = update ] && exit 0\necho "$4" >> {tmp_path}/tried\n'
        f'grep -qx "$4" {tmp_path}/packages && touch {tmp_path}/$4\n'
    )
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def need(tests: str, area: str, packages: tuple[str, ...], *, is_required: bool) -> needs.Need:
        names = [name for package in packages for name in package.split("|")]
        return needs.Need(
            tests=tests,
            areas=frozenset({area}),
            is_there=lambda: any((tmp_path / name).exists() for name in names),
            packages=packages,
            is_required=is_required,
        )

    found = (
        need("browser tests", "e2e", ("shell|whole",), is_required=True),
        need("tests of walls", "agent", ("walls",), is_required=False),
    )
    monkeypatch.setattr(needs, "NEEDS", found)
    return tmp_path


def tried(system: Path) -> list[str]:
    return (system / "tried").read_text().split() if (system / "tried").exists() else []


def test_what_is_missing_is_installed_and_the_next_name_where_there_is_no_such_package(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (system / "packages").write_text("whole\nwalls\n")
    assert needs.provide({"e2e", "agent"}) == set()
    assert tried(system) == ["shell", "whole", "walls"]
    output = capsys.readouterr()
    assert "installing" in output.out
    assert output.err == ""


def test_an_area_without_what_it_needs_does_not_run_and_others_skip_tests(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert needs.provide({"e2e", "agent"}) == {"e2e"}
    output = capsys.readouterr()
    assert "warning: the tests of walls are skipped; they need walls" in output.out
    assert "error: the browser tests need whole" in output.err


def test_nothing_is_installed_for_areas_that_do_not_run(system: Path) -> None:
    assert needs.provide({"unit"}) == set()
    assert tried(system) == []


def test_who_may_not_install_is_told(
    system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert needs.provide({"e2e"}) == {"e2e"}
    assert tried(system) == []
    assert "apt-get install whole" in capsys.readouterr().err
