"""Whether nodes would run the same thing."""

import dataclasses

import pytest

from muster.wire import NodeFacts
from muster_server.domain.nodes.consistency import COMPARED, describe_mismatches, find_mismatches

SAME = NodeFacts(
    python_version="3.11.7",
    torch_version="2.9.1+cpu",
    muster_version="0.1.0",
    cuda_version="12.8",
    driver_version="570.1",
    image_id="sha256:cd",
    code_hash="ab" * 32,
    data_hash="sha256:" + "ef" * 32,
)


def facts(**changes):
    return dataclasses.replace(SAME, **changes)


def test_every_fact_is_compared():
    assert set(COMPARED) == {field.name for field in dataclasses.fields(NodeFacts)}
    for name in COMPARED:
        (found,) = find_mismatches({"n1": SAME, "n2": facts(**{name: "sha256:9.9"})})
        assert found.fact == name
        assert {nodes for _, nodes in found.values} == {("n1",), ("n2",)}


@pytest.mark.parametrize("nodes", [{}, {"n1": SAME}, {"n1": SAME, "n2": facts()}])
def test_the_same_everywhere(nodes):
    assert find_mismatches(nodes) == ()


def test_patch_releases_of_python_understand_each_other():
    assert find_mismatches({"n1": SAME, "n2": facts(python_version="3.11.2")}) == ()
    assert find_mismatches({"n1": SAME, "n2": facts(python_version="3.12.7")})


def test_the_words_name_values_and_nodes_the_most_common_first():
    nodes = {f"n{i}": SAME for i in range(6)}
    nodes["x"] = facts(torch_version="2.8.0", driver_version="")
    assert describe_mismatches(find_mismatches(nodes)) == (
        "torch is 2.9.1+cpu on n0, n1, n2, n3 and 2 more but 2.8.0 on x; "
        "the driver is 570.1 on n0, n1, n2, n3 and 2 more but none on x"
    )


def test_code_that_was_not_looked_at_differs_from_nothing():
    assert find_mismatches({"n1": SAME, "n2": facts(code_hash="")}) == ()
