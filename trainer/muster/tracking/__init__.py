"""MLflow's tracking REST API, version 2.0, without a network: what a request asks, what it changes
and what the answer is.

`TrackingBook` holds the runs of one script, `answer` is the table of endpoints. Whoever serves them
brings HTTP, the metrics' way onwards and a place for artifacts. The standard library alone.
"""

from .book import RunChange, TrackedRun, TrackingBook, run_from_json, run_to_json
from .endpoints import answer
from .errors import TrackingError, invalid, missing, no_endpoint
from .models import LoggedModel, ModelShelf
from .values import TrackedPoint, series_name

__all__ = [
    "LoggedModel",
    "ModelShelf",
    "RunChange",
    "TrackedPoint",
    "TrackedRun",
    "TrackingBook",
    "TrackingError",
    "answer",
    "invalid",
    "missing",
    "no_endpoint",
    "run_from_json",
    "run_to_json",
    "series_name",
]
