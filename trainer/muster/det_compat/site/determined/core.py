"""Determined's name of muster.det_compat.core."""

from muster.det_compat.core import *  # noqa: F403
from muster.det_compat.distributed import DistributedContext as DistributedContext
