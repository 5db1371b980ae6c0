"""MLflow's tracking REST API, version 2.0, without a network: what a request asks, what it changes
and what the answer is.

`answer` is the table of endpoints, over a `TrackingStore`. `TrackingBook` is the one that holds the runs
of one script in memory; the server has another one. Whoever serves them brings HTTP and a place for
artifacts. The standard library alone.
"""

from .book import TrackingBook as TrackingBook
from .endpoints import answer as answer
from .endpoints import metrics_alone as metrics_alone
from .endpoints import run_id_of as run_id_of
from .errors import *
from .models import LoggedModel as LoggedModel
from .models import ModelShelf as ModelShelf
from .registrations import Registrations as Registrations
from .registrations import VersionSource as VersionSource
from .registry import artifact_path as artifact_path
from .registry import registry_call as registry_call
from .runs import *
from .store import HISTORY_POINTS_MAX as HISTORY_POINTS_MAX
from .store import TrackingStore as TrackingStore
from .store import already_exists as already_exists
from .values import BATCH_ITEMS_MAX as BATCH_ITEMS_MAX
from .values import TIME_MIN_MS as TIME_MIN_MS
from .values import TrackedPoint as TrackedPoint
from .values import items_of as items_of
from .values import sane_time as sane_time
from .values import series_name as series_name
from .values import whole_of as whole_of
