"""How the command writes figures and tables."""

import io

import pytest
from rich.console import Console

from muster.cli.commands.catalog import COLUMNS
from muster.cli.output import SENTENCES, duration, number, table

CATALOG_SENTENCES = sorted({title for columns in COLUMNS.values() for title in columns} & SENTENCES)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0.9, "0 s"),
        (38, "38 s"),
        (59.9, "59 s"),
        (245, "4 min 5 s"),
        (5400, "1 h 30 min"),
        (7200, "2 h"),
        (8040, "2 h 14 min"),
        (273_600, "3 d 4 h"),
        (86_430, "1 d"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("NaN", "NaN"),
        (3, "3"),
        (0.86666, "0.8667"),
        (1234.5, "1234"),
        (28_190.4, "28,190"),
        (-98_990.0, "-98,990"),
        (1e15, "1e+15"),
        (0.0000123456, "1.235e-05"),
    ],
)
def test_a_number_is_written_out_up_to_a_quadrillion(value: float | str | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    "columns",
    [
        ("name", "state", "health"),
        ("name", "state", "reason"),
        *(("name", "state", title) for title in CATALOG_SENTENCES),
    ],
)
def test_a_long_sentence_takes_no_room_of_the_names(columns: tuple[str, ...]) -> None:
    shown, text = table(*columns), io.StringIO()
    sentence = "GPU 1 is used by ann (pid 4242, 31 GiB) outside Muster; " * 5
    shown.add_row("a-node-with-a-name", "QUARANTINED", sentence)
    Console(file=text, width=60).print(shown)
    lines = text.getvalue().splitlines()
    assert lines[1].startswith("a-node-with-a-name  QUARANTINED  GPU 1")
    assert " ".join(" ".join(line[32:] for line in lines[1:]).split()) == sentence.strip()


def test_each_list_of_the_catalog_has_a_sentence() -> None:
    assert all(columns.keys() & SENTENCES for columns in COLUMNS.values())
