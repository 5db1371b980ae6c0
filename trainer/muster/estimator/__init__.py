"""Jobs in the words of cloud estimators: Estimator, Tuner and their parameter ranges.

    estimator = muster.Estimator("train.py", source_dir="src", instance_count=2, slots_per_node=4,
                                 distribution={"torchrun": {"enabled": True}},
                                 hyperparameters={"epochs": 3})
    estimator.fit({"train": "/data/train"})

Needs the `cli` extra.
"""

from .estimator import Estimator
from .jobs import JobFailed, TrainingJob
from .tuner import CategoricalParameter, ContinuousParameter, IntegerParameter, Tuner

__all__ = [
    "CategoricalParameter",
    "ContinuousParameter",
    "Estimator",
    "IntegerParameter",
    "JobFailed",
    "TrainingJob",
    "Tuner",
]
