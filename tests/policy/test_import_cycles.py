"""No module imports itself by way of others."""

from __future__ import annotations

import grimp

PACKAGES = ("muster_server", "muster_agent", "muster", "muster_models")


def test_no_import_cycles() -> None:
    # Imports for type checkers alone do not count: they are never carried out.
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    imported_by = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    # Whatever imports nothing that is left cannot be in a cycle; what stays when that is taken
    # away again and again is, or leads to one.
    left = set(imported_by)
    while ends := {m for m in left if not imported_by[m] & left}:
        left -= ends
    assert sorted(left) == []
