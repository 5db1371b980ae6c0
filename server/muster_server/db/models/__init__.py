"""All tables. A row class ends in `Row`; what the domain sees and what REST shows are other classes."""

from .access import *
from .base import *
from .budgets import *
from .calendar import *
from .cluster import *
from .data import *
from .deployments import *
from .diagnoses import *
from .experiments import *
from .exports import *
from .identity import *
from .layer_tables import *
from .media import *
from .notifications import *
from .outputs import *
from .predictions import *
from .profiles import *
from .providers import *
from .registry import *
from .scaling import *
from .secrets import *
from .storage import *
from .tracking import *
from .tunnels import *
from .views import *
