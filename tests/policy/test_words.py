"""Docstrings are sentences: none begins in the middle of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("agent/muster_agent", "server/muster_server", "trainer/muster")
FRAGMENT = re.compile(
    r"(?:Of|By|From|As|With|Without|Whether|How|What|Why|Who|Whose|Which|When|Where|That|Those|"
    r"Both|Likewise|Also|The same|Needs|Has|Is|Are|Was|Does)\b(?!`)|[a-z_]+: |`?None`?[:;,.]"
)
"""Beginnings that leave out what the docstring is about. Question words are allowed to attributes,
properties and classes; a docstring that begins with a parameter's name lacks a summary."""
ASKING = re.compile(r"(?:Whether|How|What|Why|Who|Which|When|Where)\b")
TO_DO: dict[str, int] = {
    "server/muster_server/services/experiments/ask_tell.py": 4,
    "server/muster_server/services/experiments/bulk.py": 1,
    "server/muster_server/services/experiments/columns.py": 2,
    "server/muster_server/services/experiments/continuing.py": 4,
    "server/muster_server/services/experiments/deletion.py": 2,
    "server/muster_server/services/experiments/filters.py": 1,
    "server/muster_server/services/experiments/forks.py": 2,
    "server/muster_server/services/experiments/order.py": 2,
    "server/muster_server/services/experiments/previews.py": 2,
    "server/muster_server/services/experiments/search_control.py": 2,
    "server/muster_server/services/experiments/submission.py": 2,
    "server/muster_server/services/experiments/trials.py": 2,
    "server/muster_server/services/experiments/views.py": 4,
    "server/muster_server/services/insight/diagnoses.py": 2,
    "server/muster_server/services/insight/diagnosis_views.py": 1,
    "server/muster_server/services/insight/performance.py": 2,
    "server/muster_server/services/insight/planner.py": 4,
    "server/muster_server/services/insight/probes.py": 2,
    "server/muster_server/services/insight/scaling.py": 2,
    "server/muster_server/services/insight/scaling_runs.py": 3,
    "server/muster_server/services/insight/scaling_views.py": 2,
    "server/muster_server/services/insight/throughput.py": 1,
    "server/muster_server/services/lifecycle/applying.py": 2,
    "server/muster_server/services/logs/histogram.py": 2,
    "server/muster_server/services/logs/merging.py": 1,
    "server/muster_server/services/logs/reading.py": 2,
    "server/muster_server/services/logs/storage.py": 1,
    "server/muster_server/services/logs/streams.py": 3,
    "server/muster_server/services/metrics/chunks.py": 3,
    "server/muster_server/services/metrics/columns.py": 1,
    "server/muster_server/services/metrics/compaction.py": 2,
    "server/muster_server/services/metrics/ingest.py": 1,
    "server/muster_server/services/metrics/loading.py": 2,
    "server/muster_server/services/metrics/retention.py": 2,
    "server/muster_server/services/metrics/summaries.py": 1,
    "server/muster_server/services/nodes/counts.py": 3,
    "server/muster_server/services/nodes/credentials.py": 1,
    "server/muster_server/services/nodes/health.py": 2,
    "server/muster_server/services/nodes/layer_tables.py": 3,
    "server/muster_server/services/nodes/leases.py": 1,
    "server/muster_server/services/nodes/management.py": 4,
    "server/muster_server/services/nodes/preflights.py": 5,
    "server/muster_server/services/nodes/registration.py": 3,
    "server/muster_server/services/nodes/system_metrics.py": 1,
    "server/muster_server/services/nodes/usage.py": 1,
    "server/muster_server/services/quota/budgets.py": 2,
    "server/muster_server/services/quota/pools.py": 1,
    "server/muster_server/services/quota/projects.py": 2,
    "server/muster_server/services/quota/spending.py": 4,
    "server/muster_server/services/runtime/evaluations.py": 2,
    "server/muster_server/services/runtime/pipelines.py": 2,
    "server/muster_server/services/runtime/profiles.py": 3,
    "server/muster_server/services/runtime/progress.py": 3,
    "server/muster_server/services/scheduling/allocations.py": 1,
    "server/muster_server/services/scheduling/placement_preview.py": 3,
    "server/muster_server/services/scheduling/queue.py": 1,
    "server/muster_server/services/scheduling/queue_order.py": 1,
    "server/muster_server/services/scheduling/rows.py": 4,
    "server/muster_server/services/scheduling/snapshot.py": 1,
    "server/muster_server/services/search/concurrency.py": 4,
    "server/muster_server/services/search/costs.py": 1,
    "server/muster_server/services/search/events.py": 1,
    "server/muster_server/services/search/notices.py": 5,
    "server/muster_server/services/search/results.py": 1,
    "server/muster_server/services/search/warm_start.py": 1,
    "trainer/muster/training/__main__.py": 1,
    "trainer/muster/training/batch_finder.py": 5,
    "trainer/muster/training/data/base.py": 2,
    "trainer/muster/training/data/given.py": 1,
    "trainer/muster/training/data/shapes.py": 1,
    "trainer/muster/training/evaluation.py": 1,
    "trainer/muster/training/layer_table.py": 3,
    "trainer/muster/training/loop.py": 1,
    "trainer/muster/training/models/transformer.py": 5,
    "trainer/muster/training/network_times.py": 3,
    "trainer/muster/training/own.py": 2,
    "trainer/muster/training/saving/files.py": 4,
    "trainer/muster/training/saving/saver.py": 2,
    "trainer/muster/training/schedules.py": 1,
    "trainer/muster/training/state.py": 3,
    "trainer/muster/training/strategies/balance.py": 1,
    "trainer/muster/training/strategies/base.py": 10,
    "trainer/muster/training/strategies/local_sgd.py": 1,
    "trainer/muster/training/strategies/local_update.py": 2,
    "trainer/muster/training/strategies/parameter_server.py": 2,
    "trainer/muster/training/strategies/parts.py": 1,
    "trainer/muster/training/strategies/pipeline.py": 5,
    "trainer/muster/training/tasks/base.py": 1,
    "trainer/muster/training/watching.py": 2,
    "trainer/muster/wire/layers.py": 1,
}
"""Number of fragments that are left, by file. Numbers may only shrink."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, bool, str]]:
    """Yield line, whether it belongs to a function that is called, and text of every docstring."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for position, statement in enumerate(body):
            if not isinstance(statement, ast.Expr):
                continue
            if not isinstance(statement.value, ast.Constant):
                continue
            if isinstance(statement.value.value, str):
                is_first = position == 0 and isinstance(
                    node, ast.FunctionDef | ast.AsyncFunctionDef
                )
                yield statement.lineno, is_first and not is_property(node), statement.value.value


def is_property(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any("property" in ast.unparse(decorator) for decorator in decorators)


def is_fragment(text: str, *, of_function: bool) -> bool:
    text = text.strip()
    if not of_function and ASKING.match(text):
        return False
    return bool(FRAGMENT.match(text))


def fragments() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for line, of_function, text in docstrings(ast.parse(path.read_text())):
                if is_fragment(text, of_function=of_function):
                    name = str(path.relative_to(ROOT))
                    found.setdefault(name, []).append(f"{name}:{line}: {text.strip()[:60]}")
    return found


def test_docstrings_do_not_begin_as_fragments() -> None:
    found = fragments()
    wrong = [entry for name, entries in found.items() if len(entries) > TO_DO.get(name, 0)
             for entry in entries]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_the_list_of_what_is_left_has_no_spare_room() -> None:
    found = fragments()
    spare = {name: number for name, number in TO_DO.items() if number > len(found.get(name, []))}
    assert not spare, f"lower these numbers of TO_DO: {spare}"


def test_a_fragment_is_recognized() -> None:
    assert is_fragment("Of its metrics, by retention.", of_function=True)
    assert is_fragment("None: nobody may.", of_function=False)
    assert is_fragment("Whether it is there.", of_function=True)
    assert not is_fragment("Whether it is there.", of_function=False)
    assert not is_fragment("Return whether it is there.", of_function=True)
