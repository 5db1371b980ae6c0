"""A toy of each recipe in CONTRIBUTING.md: what one adds by it, file by file.

`tests/policy/check_toys.py` uses the toys in a copy of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Insertion:
    """Text that goes into a file before the only place where `before` stands."""

    before: str
    text: str


Toy = dict[str, list[Insertion] | str]
"""File of the tree → what is put into it, or all of a new file."""

SEARCH_METHOD: Toy = {
    "trainer/muster/document/searching.py": [
        Insertion(']\nGoal = Literal["min"', ', "twice"'),
    ],
    "server/muster_server/domain/search/methods.py": [
        Insertion(
            '}\n"""Every method, by its name in documents."""',
            """    "twice": SearchMethod(
        title=LocalizedText("Twice", "两次"),
        summary=LocalizedText("Two drawn points.", "抽取两个点。"),
        num_trials=lambda search, parameters: 2,
        may_close=False,
    ),
""",
        )
    ],
    "docs/concepts/search.md": [
        Insertion("\n### Parallel trials", "| `twice` | two points | no |\n"),
    ],
    "examples/documents/search-twice.yaml": """\
# Twice: two draws, each to its end.
name: digits-twice
trainer: {model: mlp, data: digits}
hyperparameters:
  lr: {log: [0.001, 0.1]}
search: {method: twice, metric: val/loss, goal: min, max_length: {epochs: 3}}
""",
}

NOTIFICATION: Toy = {
    "server/muster_server/domain/notifications/kinds.py": [
        Insertion(']\n"""Kinds that a rule can name."""', '    "trial.slow",\n'),
        Insertion(
            '}\n"""What each kind is about, in the order',
            """    "trial.slow": NotifiedEvent(
        title=LocalizedText("Trial slow", "试验缓慢"),
        when="a trial is slow",
        event_types=("trial.slow",),
    ),
""",
        ),
    ],
    "docs/guides/notifications.md": [
        Insertion("\n## Add a webhook", "| `trial.slow` | a trial is slow |\n"),
    ],
}

PROVIDER: Toy = {
    "server/muster_server/domain/providers/options.py": [
        Insertion(
            "ProviderOptions = SlurmOptions",
            '''@dataclass(frozen=True, kw_only=True)
class ShelfOptions:
    """Options of the provider `shelf`."""

    title: ClassVar = "Shelf"
    rules: ClassVar[Mapping[str, OptionRule]] = {"server_url": _URL}
    required: ClassVar[tuple[str, ...]] = ("server_url",)

    server_url: str
    row: str = "1"

    @property
    def name(self) -> str:
        return f"Shelf row {self.row}"


''',
        ),
        Insertion("\nProviderKind = Literal[", " | ShelfOptions"),
        Insertion("]\nKINDS: Mapping", ', "shelf"'),
        Insertion('}\n"""Options of each kind of provider', '    "shelf": ShelfOptions,\n'),
    ],
    "server/muster_server/loops/batch_systems/shelf.py": '''\
"""The adapter of a shelf."""

from __future__ import annotations

from collections.abc import Collection

from muster_server.domain.providers import Pilot
from muster_server.domain.providers.options import ShelfOptions

from .base import Listing, PilotJob


class Shelf:
    def __init__(self, options: ShelfOptions) -> None:
        self._options = options

    def submit(self, job: PilotJob) -> str:
        return job.id

    def look(self, pilots: Collection[Pilot]) -> Listing:
        return Listing(jobs={}, absent=[pilot.id for pilot in pilots])

    def cancel(self, refs: Collection[str]) -> None:
        pass
''',
    "server/muster_server/loops/batch_systems/choosing.py": [
        Insertion(
            "\n\ndef system_of",
            "from muster_server.domain.providers.options import ShelfOptions\nfrom .shelf import Shelf\n",
        ),
        Insertion(
            "    if isinstance(options, RayOptions)",
            "    if isinstance(options, ShelfOptions):\n        return Shelf(options)\n",
        ),
    ],
    "docs/guides/shelf.md": "# Use the nodes of a shelf\n",
}

RECIPES: dict[str, tuple[Toy, dict[str, str]]] = {
    "A search method": (SEARCH_METHOD, {"NAME": "twice"}),
    "A notification": (NOTIFICATION, {}),
    "A provider": (PROVIDER, {"NAME": "shelf"}),
}
"""Title of a recipe → its toy, and what its placeholders stand for there."""


def add(toy: Toy, root: Path) -> None:
    """Put a toy into the tree at `root`. Raises ValueError where its place is not found, or twice."""
    for name, change in toy.items():
        path = root / name
        if isinstance(change, str):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(change)
            continue
        text = path.read_text()
        for insertion in change:
            if text.count(insertion.before) != 1:
                raise ValueError(f"{name} has no one place before {insertion.before!r}")
            text = text.replace(insertion.before, insertion.text + insertion.before)
        path.write_text(text)
