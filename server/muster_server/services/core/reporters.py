"""Protocols for the allocations whose records are stored, reduced to what storing them needs."""

from __future__ import annotations

from typing import Protocol


class MetricSource(Protocol):
    """An allocation, or what stands for one."""

    @property
    def id(self) -> str: ...
    @property
    def trial_id(self) -> int: ...
    @property
    def attempt_no(self) -> int: ...


class ReportingAllocation(MetricSource, Protocol):
    """An allocation that reports."""

    @property
    def node_id(self) -> str: ...
    @property
    def node_name(self) -> str: ...
