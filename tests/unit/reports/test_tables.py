"""Tables of reports: mean and deviation of groups, and tables as LaTeX and Markdown."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.reports import (
    group_cell,
    latex_number,
    latex_table,
    latex_text,
    markdown_text,
    table_rows,
    with_baseline,
)

RUNS = {
    no: {"lr": lr, "seed": no, "acc": acc, "opt": opt}
    for no, (lr, acc, opt) in enumerate(
        [(0.1, 0.5, "sgd"), (0.01, 0.75, "sgd"), (0.1, 0.7, "sgd"), (0.01, "NaN", "adam"),
         (0.1, None, "adam"), (None, 0.25, None), (10, 0.125, True)],
        1,
    )
}  # fmt: skip


def of(values, decimals=None):
    return group_cell(dict(enumerate(values)), decimals)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_deviation_is_that_of_a_sample(values):
    found = of(values)
    assert found.value == pytest.approx(statistics.fmean(values))
    assert found.deviation == pytest.approx(statistics.stdev(values))
    assert (found.num, found.num_missing, found.num_not_finite) == (len(values), 0, 0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (None, None, 0, 0, 0)),
        ([0.5], (0.5, None, 1, 0, 0)),
        ([None, "NaN", "Infinity", math.inf, True, "x", 2], (2.0, None, 1, 1, 5)),
        ([3, 3], (3.0, 0.0, 2, 0, 0)),
        ([10**400, 1.0], (1.0, None, 1, 0, 1)),
        ([1e308, 1.6e308], (None, None, 2, 0, 0)),
    ],
)
def test_what_is_no_finite_number_is_counted_and_left_out(values, expected):
    found = of(values)
    assert (
        found.value, found.deviation, found.num, found.num_missing, found.num_not_finite,
    ) == expected  # fmt: skip


def test_groups_are_ordered_and_say_of_how_many_their_means_are():
    rows = table_rows(RUNS, ["lr"], ["acc"], None)
    assert [(list(row.keys), row.trial_ids, row.cells[0].text) for row in rows] == [
        (["0.01"], [2, 4], "0.75 (n=1)"),
        (["0.1"], [1, 3, 5], "0.60 ± 0.14 (n=2)"),
        (["10"], [7], "0.125"),
        (["–"], [6], "0.25"),
    ]
    assert [row.cells[0].trial_ids for row in rows] == [[2], [1, 3], [7], [6]]
    two = table_rows(RUNS, ["opt", "lr"], ["acc"], 2)
    assert [list(row.keys) for row in two] == [
        ["adam", "0.01"], ["adam", "0.1"], ["sgd", "0.01"], ["sgd", "0.1"], ["true", "10"], ["–", "–"],
    ]  # fmt: skip
    assert [row.cells[0].text for row in two[:2]] == ["–", "–"]


def test_rows_differ_from_the_baseline():
    rows = with_baseline(table_rows(RUNS, ["lr"], ["acc"], None), 3)
    assert [row.is_baseline for row in rows] == [False, True, False, False]
    assert rows[0].cells[0].difference == pytest.approx(0.15)
    assert rows[1].cells[0].difference is None
    single = with_baseline(table_rows(RUNS, [], ["acc", "opt"], None), 1)
    assert single[3].cells[0].difference is None
    assert single[1].cells[0].difference == 0.25
    assert single[1].cells[1].difference is None
    with pytest.raises(LookupError):
        with_baseline(rows, 99)


@pytest.mark.parametrize(
    ("values", "decimals", "text"),
    [
        ([0.9121, 0.9154, 0.9098], None, "0.9124 ± 0.0028"),
        ([0.9121, 0.9154, 0.9098], 2, "0.91 ± 0.00"),
        ([12345.0, 13345.0], None, "12845 ± 707"),
        ([3.0, 3.0], None, "3 ± 0"),
        ([1e-20, 3e-20], None, "2e-20 ± 1.4142e-20"),
        ([0.00012345678], None, "0.00012346"),
        ([None, None], None, "–"),
    ],
)
def test_numbers_have_two_digits_of_their_deviation(values, decimals, text):
    assert of(values, decimals).text == text


def test_a_table_for_a_paper():
    assert latex_text("50% of a_b & {c} \\ ~^#$\nx") == (
        r"50\% of a\_b \& \{c\} \textbackslash{} \textasciitilde{}\textasciicircum{}\#\$ x"
    )
    assert latex_number("1e-05 ± 2.5e+10") == r"$1 \times 10^{-5} \pm 2.5 \times 10^{10}$"
    table = latex_table(["hparam.lr", "n"], 1, [["0.1", "$3$"]], "All & more")
    assert table.splitlines()[2:9] == [
        r"  \caption{All \& more}",
        r"  \begin{tabular}{lr}",
        r"    \toprule",
        r"    hparam.lr & n \\",
        r"    \midrule",
        r"    0.1 & $3$ \\",
        r"    \bottomrule",
    ]


def test_text_in_markdown_stays_text():
    assert markdown_text("a|b <img> [x](y)\n# c") == r"a\|b \<img\> \[x\](y) \# c"
