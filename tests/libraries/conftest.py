"""The libraries are in a folder of their own, which $MUSTER_LIBRARIES names: scripts find them there
first, tests after their own packages."""

import os
import sys

sys.path.append(os.environ["MUSTER_LIBRARIES"])
