"""What becomes of a test that fails, by area and when run again."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "run_tests.py"
FAILS_ONCE = """
from pathlib import Path
def test_it():
    there = Path(__file__).with_name("was-here")
    was_here = there.exists()
    there.touch()
    assert was_here
def test_other():
    pass
"""
FAILS = "def test_it():\n    assert False\n"


@pytest.fixture
def run_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, over a project of its own."""
    spec = importlib.util.spec_from_file_location("run_tests", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_tests", module)
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec.loader.exec_module(module)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PARALLEL_AREAS", {})
    monkeypatch.setattr(module, "provide", lambda areas: set())
    # Loading every plugin that is installed takes longer than the tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    call = module.call
    monkeypatch.setattr(
        module, "call", lambda *command, manner: call(*command, cwd=tmp_path, manner=manner)
    )
    return module


@pytest.mark.parametrize(
    ("area", "script", "ok", "said", "unsteady"),
    [
        ("e2e", FAILS_ONCE, True, "2 passed", ["tests.e2e.test_a::test_it"]),
        ("agent", FAILS, False, "1 failed", []),
        ("policy", FAILS_ONCE, False, "1 failed, 1 passed", []),
    ],
)
def test_only_what_watches_processes_is_run_again_and_named(
    run_tests: ModuleType,
    tmp_path: Path,
    area: str,
    script: str,
    ok: bool,
    said: str,
    unsteady: list[str],
) -> None:
    folder = tmp_path / "tests" / area
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text(script)
    tests = run_tests.Tests()
    assert not run_tests.pytest(area, [], tests)
    assert run_tests.run_again(area, [], tests) is ok
    assert str(tests) == said
    assert tests.unsteady == unsteady


def test_a_test_that_measured_again_is_named(run_tests: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "e2e"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text(
        "def test_it(request):\n    request.node.user_properties.append(('unsteady', 'took 5 ms'))\n"
    )
    tests = run_tests.Tests()
    assert run_tests.pytest("e2e", [], tests)
    assert tests.unsteady == ["tests.e2e.test_a::test_it: took 5 ms"]


def test_many_failed_tests_are_no_accident(run_tests: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "e2e"
    folder.mkdir(parents=True)
    for number in range(run_tests.MAX_UNSTEADY + 1):
        path = folder / f"{number}"
        path.mkdir()
        (path / f"test_{number}.py").write_text(FAILS_ONCE)
    tests = run_tests.Tests()
    assert not run_tests.pytest("e2e", [], tests)
    assert not run_tests.run_again("e2e", [], tests)
    assert tests.counts["failed"] == run_tests.MAX_UNSTEADY + 1
    assert tests.unsteady == []


PASSES = "def test_it():\n    pass\n"


def titles_in(said: str) -> list[str]:
    return [line.removeprefix("── ") for line in said.splitlines() if line.startswith("── ")]


@pytest.mark.parametrize(
    ("script", "said", "code"),
    [
        (PASSES, "4 passed", 0),
        (FAILS_ONCE, "5 passed", 0),
        (FAILS, "1 failed, 3 passed", 1),
    ],
)
def test_what_runs_side_by_side_is_told_whole_and_run_again_at_the_end(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    script: str,
    said: str,
    code: int,
) -> None:
    areas = {"simulation": PASSES, "agent": script, "api": PASSES, "chaos": PASSES}
    for area, text in areas.items():
        (tmp_path / "tests" / area).mkdir(parents=True)
        (tmp_path / "tests" / area / f"test_{area}.py").write_text(text)
    monkeypatch.setattr(sys, "argv", ["run_tests.py", *areas])
    assert run_tests.main() == code
    output = capfd.readouterr().out
    slow = [line.split()[-1] for line in output.splitlines() if line.startswith("slow ")]
    assert sorted(slow) == sorted(f"tests.{area}.test_{area}" for area in areas)
    titles = titles_in(output)
    assert sorted(titles[:4]) == sorted(areas)
    again = ["run again, alone: tests.agent.test_agent::test_it"] if script != PASSES else []
    assert titles[4:] == [*again, "summary"]
    assert said in output.splitlines()[-1]


def test_one_area_alone_has_the_terminal(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tests" / "e2e").mkdir(parents=True)
    (tmp_path / "tests" / "e2e" / "test_e2e.py").write_text("def test_it():\n    pass\n")
    monkeypatch.setitem(run_tests.CHECKS, "frontend", lambda manner, tests: True)
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "e2e", "frontend"])
    assert run_tests.main() == 0
    assert sorted(titles_in(capfd.readouterr().out)) == ["e2e", "frontend", "summary"]
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "e2e"])
    assert run_tests.main() == 0
    assert "begins" not in capfd.readouterr().out


def test_what_is_skipped_is_told_with_the_reason(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for area in ("agent", "api"):
        (tmp_path / "tests" / area).mkdir(parents=True)
        (tmp_path / "tests" / area / f"test_{area}.py").write_text(
            "import pytest\ndef test_it():\n    pytest.skip('no walls')\n"
        )
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "agent", "api"])
    run_tests.main()
    output = capfd.readouterr().out
    assert "skipped     2  no walls" in output
    assert " 2 skipped in " in output.splitlines()[-1]


REPORT = """<testsuites><testsuite>
<testcase classname="tests.api.test_logs" name="test_a" time="1.5"/>
<testcase classname="tests.api.test_logs.TestPages" name="test_b" time="2.25"/>
<testcase classname="tests.api.test_live" name="test_c" time="3.0"/>
</testsuite></testsuites>"""


def test_files_are_ranked_by_the_time_of_all_their_tests(
    run_tests: ModuleType, tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    tests = run_tests.Tests()
    tests.read(report)
    assert tests.seconds.most_common() == [
        ("tests.api.test_logs", 3.75),
        ("tests.api.test_live", 3.0),
    ]


@pytest.mark.parametrize(
    ("area", "file", "said"),
    [
        ("ray", "integration/providers/test_ray.py", "2 passed"),
        ("libraries", "libraries/test_a.py", "4 passed"),
    ],
)
def test_the_tests_of_areas_with_an_environment_of_their_own_are_counted(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    area: str,
    file: str,
    said: str,
) -> None:
    (tmp_path / "tests" / file).parent.mkdir(parents=True)
    (tmp_path / "tests" / file).write_text(PASSES + "def test_other():\n    pass\n")
    for name in ("libraries/excludes", "libraries/newest", "libraries/older", "support/batch/ray"):
        requirements = tmp_path / "tests" / f"{name}.txt"
        requirements.parent.mkdir(parents=True, exist_ok=True)
        requirements.touch()
    call = run_tests.call
    monkeypatch.setattr(
        run_tests, "call", lambda *words, manner: words[0] == "uv" or call(*words, manner=manner)
    )
    monkeypatch.setattr(sys, "argv", ["run_tests.py", area])
    assert run_tests.main() == 0
    assert f" {said} in " in capfd.readouterr().out.splitlines()[-1]


def test_the_fast_part_runs_beside_the_types_and_without_postgres(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    postgres\n")
    (folder / "test_a.py").write_text(
        "import pytest\n@pytest.mark.postgres\ndef test_it():\n    assert False\n"
        "def test_other():\n    pass\n"
    )
    checked = []
    for name in run_tests.CHECKS:
        monkeypatch.setitem(
            run_tests.CHECKS,
            name,
            lambda manner, tests, name=name: checked.append((name, bool(manner.output))) or True,
        )
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--fast"])
    assert run_tests.main() == 0
    assert sorted(checked) == [("imports", False), ("style", False), ("types", True)]
    said = capfd.readouterr().out
    *first, last = titles_in(said)
    assert (sorted(first), last) == (["imports", "style", "types", "unit"], "summary")
    assert "1 passed" in said.splitlines()[-1]


WRITES = """
from pathlib import Path
def test_it():
    Path({root!r}, "helm-0.4.tar.bz2").touch()
    Path({root!r}, "some.ignored").touch()
"""


def test_what_a_test_leaves_in_the_checkout_fails_the_run(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "tests" / "policy"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text(WRITES.format(root=str(tmp_path)))
    (tmp_path / ".gitignore").write_text("*.ignored\n__pycache__/\n.pytest_cache/\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(sys, "argv", ["run_tests", "policy"])
    assert run_tests.main() == 1
    said = capsys.readouterr().out
    assert "LEFT in the checkout, where tests may write nothing: helm-0.4.tar.bz2" in said
    assert said.count("LEFT") == 1
    assert run_tests.main() == 0, "what was there before is nobody's fault"


def test_what_tests_install_is_outside_of_the_checkout(
    run_tests: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    file = tmp_path / "ray.txt"
    file.write_text("ray==2")
    first = run_tests.installed_in("ray", file)
    assert first.parent == Path("/cache/muster-tests")
    file.write_text("ray==3")
    assert run_tests.installed_in("ray", file) != first


@pytest.mark.parametrize(("near", "said"), [(PASSES, "2 passed"), (FAILS, "1 failed")])
def test_what_a_change_can_affect_runs_after_the_tests_nearest_to_it(
    run_tests: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    near: str,
    said: str,
) -> None:
    folder = tmp_path / "tests" / "policy"
    folder.mkdir(parents=True)
    for name, script in (("near", near), ("other", PASSES), ("untouched", FAILS)):
        (folder / f"test_{name}.py").write_text(script)

    class Tree:
        def __init__(self, root: Path) -> None:
            assert root == tmp_path

        def select(self, changed: set[str]) -> Selection:
            assert changed == {"a.py"}
            return Selection(
                nearest={"policy": ["tests/policy/test_near.py"]},
                others={"policy": ["tests/policy/test_other.py"]},
            )

    from changed_tests import Selection

    monkeypatch.setattr(run_tests, "Tree", Tree)
    monkeypatch.setattr(run_tests, "changed_files", lambda root, since: {"a.py"})
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--changed"])
    assert run_tests.main() == (near == FAILS)
    output = capfd.readouterr().out.splitlines()
    assert "1 changed files: 1 test files near them, then 1 others" in output
    assert f" {said} in " in output[-1]
