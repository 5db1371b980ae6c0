"""Media that a script logs per step: what there is, its bounds, and its content as bytes.

Pure, and needs nothing but the standard library: the SDK uses it in the training process, and the
shim for what it reads from files of other tools.
"""

from .content import *
from .limits import *
