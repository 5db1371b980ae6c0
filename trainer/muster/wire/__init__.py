"""The messages between training processes, shims, agents and the control plane.

One definition for all of them: frozen keyword-only dataclasses, JSON in and out. FastAPI takes
them directly as bodies, so an older server tolerates a newer agent: unknown fields are ignored
here (and only here; what people write by hand is strict).

Numbers that are not finite travel as the strings "NaN", "Infinity" and "-Infinity", because JSON
has no spelling for them and a diverged loss is exactly the point people need to see.

Delivery: server to agent is level-triggered (the complete desired set, again and again); agent to
server is a numbered record stream per allocation (at least once, de-duplicated by number) plus log
bytes by offset. Nothing is exactly-once on the wire; it becomes so by what the server stores.
"""

from muster.numbers import *

from .chores import *
from .code import *
from .codec import *
from .layers import *
from .models import *
from .nodes import *
from .outputs import *
from .predictions import *
from .records import *
from .secrets import *
from .tunnels import *
from .work import *
from .workers import *

PROTOCOL_VERSION = 1
