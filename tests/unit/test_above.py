"""What a script names above its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.code.above import named_above


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "repository"
    for name in (".git", "data", "package", "jobs/train"):
        (root / name).mkdir(parents=True)
    (root / "data/x.csv").write_text("1")
    (root.parent / "elsewhere").mkdir()
    return root


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("open('../../data/x.csv')", "."),
        ("import sys; sys.path.append('..')", "jobs"),
        ("import sys; sys.path.insert(0, '../..')", "."),
        ("here = Path(__file__).resolve().parents[2] / 'data'", "."),
        ("here = Path(__file__).parent.parent", "jobs"),
        ("os.path.dirname(os.path.dirname(os.path.abspath(__file__)))", "jobs"),
        ("parser.add_argument('--data', default='../../data')", "."),
        ("here = Path(__file__).parent / 'data'", None),
        ("open('../../data/missing.csv')", None),
        ("'''Reads ../../data, see ../../README.md.'''", None),
        ("# open('../../data/x.csv')", None),
        ("print('...', 'a ... b')", None),
        ("from ..package import x", None),
        ("open('../../data/x.csv'", None),
    ],
)
def test_what_a_python_script_names(checkout: Path, text: str, root: str | None) -> None:
    folder = checkout / "jobs/train"
    (folder / "train.py").write_text(text)
    found = named_above(folder, ["python", "train.py"])
    assert (found and found.root) == (None if root is None else checkout / root)
    assert found is None or found.is_in_checkout


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("cd ..; python train/train.py", "jobs"),
        ("python train.py --data ../../data/x.csv", "."),
        ("python train.py --data=../../data", "."),
        ("# see ../../data", None),
        ("cat a/../b.txt; echo ...; git log HEAD..main", None),
    ],
)
def test_what_a_shell_script_and_a_command_line_name(
    checkout: Path, text: str, root: str | None
) -> None:
    folder = checkout / "jobs/train"
    (folder / "run.sh").write_text(text)
    wanted = None if root is None else checkout / root
    found = named_above(folder, ["bash", "run.sh"])
    assert (found and found.root) == wanted
    if not text.startswith("#"):
        found = named_above(folder, ["bash", "-c", text])
        assert (found and found.root) == wanted


def test_what_lies_outside_of_the_checkout_is_told_apart(checkout: Path) -> None:
    found = named_above(checkout, ["python", "x.py", "--data", "../elsewhere"])
    assert found is not None
    assert (found.name, found.is_in_checkout) == ("../elsewhere", False)
