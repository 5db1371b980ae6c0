"""MLflow's tracking REST API, version 2.0, without a network: what a request asks, what it changes
and what the answer is.

`answer` is the table of endpoints, over a `TrackingStore`. `TrackingBook` is the one that holds the runs
of one script in memory; the server has another one. Whoever serves them brings HTTP and a place for
artifacts. The standard library alone.
"""

from .book import TrackingBook
from .endpoints import answer
from .errors import TrackingError, invalid, missing, no_endpoint
from .models import LoggedModel, ModelShelf
from .registrations import Registrations, VersionSource
from .registry import artifact_path, registry_call
from .runs import (
    DEFAULT_EXPERIMENT,
    IMPORT_TAG,
    NAME_TAG,
    PARENT_TAG,
    RunChange,
    TrackedExperiment,
    TrackedRun,
    run_from_json,
    run_to_json,
)
from .store import HISTORY_POINTS_MAX, TrackingStore, already_exists
from .values import (
    BATCH_ITEMS_MAX,
    TIME_MIN_MS,
    TrackedPoint,
    items_of,
    sane_time,
    series_name,
    whole_of,
)

__all__ = [
    "BATCH_ITEMS_MAX",
    "DEFAULT_EXPERIMENT",
    "HISTORY_POINTS_MAX",
    "IMPORT_TAG",
    "NAME_TAG",
    "PARENT_TAG",
    "TIME_MIN_MS",
    "LoggedModel",
    "ModelShelf",
    "Registrations",
    "RunChange",
    "TrackedExperiment",
    "TrackedPoint",
    "TrackedRun",
    "TrackingBook",
    "TrackingError",
    "TrackingStore",
    "VersionSource",
    "already_exists",
    "answer",
    "artifact_path",
    "invalid",
    "items_of",
    "missing",
    "no_endpoint",
    "registry_call",
    "run_from_json",
    "run_to_json",
    "sane_time",
    "series_name",
    "whole_of",
]
