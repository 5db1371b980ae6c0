"""Figures of single nodes as Prometheus reads them: ratios instead of percentages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from prometheus_client.core import GaugeMetricFamily, Metric

from muster.wire import ThrottleReason
from muster_server.services.nodes.usage import NodeFigures

from . import families
from .families import Family

PER_CENT = 0.01
MEGA = 1e6

_OF_NODE: tuple[tuple[Family, str, float], ...] = (
    (families.NODE_CPU, "cpu_pct", PER_CENT),
    (families.NODE_LOAD, "load_1m", 1.0),
    (families.NODE_MEMORY_USED, "memory_used_bytes", 1.0),
    (families.NODE_MEMORY, "memory_total_bytes", 1.0),
    (families.NODE_DISK_FREE, "disk_free_bytes", 1.0),
    (families.NODE_DISK_READ, "disk_read_bytes_per_s", 1.0),
    (families.NODE_DISK_WRITTEN, "disk_written_bytes_per_s", 1.0),
)
_OF_INTERFACE: tuple[tuple[Family, str, float], ...] = (
    (families.NODE_SENT, "sent_bytes_per_s", 1.0),
    (families.NODE_RECEIVED, "received_bytes_per_s", 1.0),
)
_OF_GPU: tuple[tuple[Family, str, float], ...] = (
    (families.NODE_GPU_USE, "use_pct", PER_CENT),
    (families.NODE_GPU_MEMORY_USED, "memory_used_bytes", 1.0),
    (families.NODE_GPU_MEMORY, "memory_total_bytes", 1.0),
    (families.NODE_GPU_POWER, "power_w", 1.0),
    (families.NODE_GPU_TEMPERATURE, "temperature_c", 1.0),
    (families.NODE_GPU_CLOCK, "clock_mhz", MEGA),
    (families.NODE_GPU_MAX_CLOCK, "max_clock_mhz", MEGA),
)


def metrics_of_nodes(nodes: Sequence[NodeFigures]) -> Iterator[Metric]:
    """Yield every family, with a sample for each node (interface, device) that reports it."""
    own = [([node.node], node.usage) for node in nodes]
    yield from _families(_OF_NODE, own)
    yield from _families(_OF_INTERFACE, _parts(nodes, "interfaces", "name"))
    gpus = _parts(nodes, "gpus", "index")
    yield from _families(_OF_GPU, gpus)
    yield _throttled(gpus)


def _throttled(gpus: list[tuple[list[str], Mapping[str, Any]]]) -> Metric:
    family = families.NODE_GPU_THROTTLED
    metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for labels, values in gpus:
        reasons = values.get("throttle_reasons")
        if reasons is not None:
            for reason in get_args(ThrottleReason):
                metric.add_metric([*labels, reason], reason in reasons)
    return metric


def _parts(
    nodes: Sequence[NodeFigures], parts: str, name: str
) -> list[tuple[list[str], Mapping[str, Any]]]:
    return [
        ([node.node, str(part.get(name, ""))], part)
        for node in nodes
        for part in node.usage.get(parts) or ()
    ]


def _families(
    wanted: Sequence[tuple[Family, str, float]], found: list[tuple[list[str], Mapping[str, Any]]]
) -> Iterator[Metric]:
    for family, name, factor in wanted:
        metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
        for labels, values in found:
            if values.get(name) is not None:
                metric.add_metric(labels, float(values[name]) * factor)
        yield metric
