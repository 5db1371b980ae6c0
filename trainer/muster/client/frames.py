"""Columns of values, and the data frames that they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Frame:
    """Columns of equal length by name; what the client returns as numbers to work with."""

    by_name: dict[str, list[Any]]

    @classmethod
    def of_rows(cls, rows: Sequence[dict[str, Any]]) -> Frame:
        """Return rows as columns, in the order in which their names appear; a value that a row lacks
        is None."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    def __len__(self) -> int:
        return len(next(iter(self.by_name.values()), []))

    def __getitem__(self, name: str) -> list[Any]:
        return self.by_name[name]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one dictionary per row."""
        for values in zip(*self.by_name.values(), strict=True):
            yield dict(zip(self.by_name, values, strict=True))

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame. Raises ImportError without pandas."""
        import pandas

        return pandas.DataFrame(self.by_name)

    def to_polars(self) -> Any:
        """Return a polars.DataFrame. Raises ImportError without polars."""
        import polars

        return polars.DataFrame(self.by_name, strict=False)
