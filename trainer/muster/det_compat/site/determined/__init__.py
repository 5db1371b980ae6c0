"""The name under which scripts of Determined import muster.det_compat."""

from muster.det_compat import *
from muster.det_compat import __getattr__ as __getattr__
from muster.det_compat import core as core
