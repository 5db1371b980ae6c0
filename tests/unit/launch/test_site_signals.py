"""What a SIGTERM means to a process that starts others, by the word that the shim has left."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.launch import site_signals
from muster.launch.site_signals import SHIM, SITE, SITE_THEN_SHIM


@pytest.mark.parametrize(
    ("words", "is_passed_on"),
    [
        ([SITE], [False]),
        ([SHIM], [True]),
        ([SITE, SITE_THEN_SHIM], [False, True]),
        # The shim may mean it before a waiting process has read that all have got the signal.
        ([SITE_THEN_SHIM, SITE_THEN_SHIM], [False, True]),
        ([SHIM, SHIM], [True, True]),
    ],
)
def test_what_all_have_got_is_not_passed_on(
    words: list[str], is_passed_on: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_signals, "_file", "")
    monkeypatch.setattr(site_signals, "_has_heard", False)
    site_signals.listen(str(tmp_path / "report.sock"))
    passed = []
    for word in words:
        site_signals.leave_word(tmp_path, word)
        passed.append(site_signals.is_to_pass_on())
    assert passed == is_passed_on


@pytest.mark.parametrize(("word", "ends"), [(SITE, False), (SHIM, True), (SITE_THEN_SHIM, True)])
def test_a_process_ends_once_the_shim_says_so(
    word: str, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_signals, "_file", "")
    site_signals.listen(str(tmp_path / "report.sock"))
    site_signals.leave_word(tmp_path, word)
    assert site_signals.is_for_us() is ends
