"""Hyperparameter search: pure decisions from a stored state and one event at a time."""

from .events import *
from .rungs import Bracket as Bracket
from .rungs import rung_units as rung_units
from .searcher import *
from .spec import *
from .turns import *
