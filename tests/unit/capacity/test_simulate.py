"""Runs are compared with what was predicted, and the guide has the table that the command makes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

RUN = """\
x86_64, 2 cores, Python 3.11.2, load 12.3
postgres:
  200 agents joined in 22.9 s, 9/s
    lease                            311 calls    13.6/s   p50   1262.3 ms  p95   2209.1  p99   2885.6  max   2991.9
  measured for 40 s with 20 attempts that report every 5 s, load 2.0:
    assignments, later than 25 s     333 calls     8.3/s   p50     52.4 ms  p95    280.2  p99    465.9  max    466.2
    lease                           1598 calls    39.9/s   p50     60.6 ms  p95    222.0  p99    352.8  max    432.1
    logs                             160 calls     4.0/s   p50     30.1 ms  p95    131.6  p99    178.5  max    371.9
    records                          160 calls     4.0/s   p50     85.8 ms  p95    216.9  p99    275.6  max    471.8
    server-1                      15.4 % of a core,    219 MiB
    controller-1                   2.7 % of a core,    169 MiB
    postgres                       6.3 % of a core,    699 MiB
"""


def test_a_run_is_read_and_each_part_has_an_error_with_its_sign(capacity: SimpleNamespace) -> None:
    (run,) = capacity.simulate.read_runs(RUN)
    assert run.rates == {"poll": 8.3, "lease": 39.9, "log": 4.0, "report": 4.0}
    assert run.loads == pytest.approx({"server": 0.154, "controller": 0.027, "database": 0.063})
    assert (run.agents, run.training, run.p95_ms, run.cores) == (200, 20, 222.0, 2)
    costs = capacity.costs.read(capacity.simulate.FOLDER / "measured.json")
    (line,) = capacity.simulate.check(costs, RUN)
    expected, outcome = capacity.simulate.predict(costs, run)
    assert expected == pytest.approx(40 + 8 + 4 + 4)
    assert f"server {outcome.loads['server']:.3f} for 0.154: +" in line


def test_an_output_without_a_part_is_refused(capacity: SimpleNamespace) -> None:
    cut = RUN.replace("postgres  ", "valkey  ")
    with pytest.raises(capacity.costs.BadMeasurement, match="200 agents has no line of"):
        capacity.simulate.read_runs(cut)


def test_the_table_of_the_guide_is_that_of_the_command(capacity: SimpleNamespace) -> None:
    """Compare the first two rows alone, since all of them take ten seconds."""
    simulate = capacity.simulate
    costs = capacity.costs.read(simulate.FOLDER / "measured.json")
    page = simulate.PAGE.read_text()
    rows = simulate.rows(costs, simulate.TABLE_NODES[:1])
    assert page.split(simulate.BEGIN)[1].split(simulate.END)[0].splitlines()[2:4] == rows
    assert simulate.page_with(page, "other\n").count("other") >= 1
