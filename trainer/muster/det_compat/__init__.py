"""Determined's Core API over Muster, so that its scripts run unchanged.

    python -m muster.det_compat train.py --epochs 3
    python -m muster.det_compat -- bash run.sh

In the script, and in every Python that it starts, `import determined` gives this module: `det.core`,
`det.get_cluster_info()` and `det.LOG_FORMAT`, `determined.launch.wrap_rank` and
`determined.launch.torch_distributed`. Trial classes and the Trainer are not there. Needs the standard
library alone; workers on several nodes exchange objects over torch.
"""

from __future__ import annotations

from typing import Any

from muster import __version__
from muster.det_compat import core
from muster.det_compat.info import ClusterInfo, TrialInfo, get_cluster_info

LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"

__all__ = ["LOG_FORMAT", "ClusterInfo", "TrialInfo", "__version__", "core", "get_cluster_info"]


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"muster.det_compat has the Core API of Determined, and no {name!r}; write that part as a "
        "script with det.core or muster"
    )
