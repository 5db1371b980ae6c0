"""The exception for hyperparameters that cannot work."""

from __future__ import annotations


class InvalidHyperparameters(ValueError):
    """These hyperparameters cannot be trained, whatever the machine: heads that do not divide the width.

    Raised out of a script, it ends the trial at once, without a restart, and says so to the search: see
    "Rules for what goes wrong" in the concept of searches. The message is shown with the trial.
    """
