"""Drive a search of a Muster server from a program of your own.

    from muster.client import Client
    from muster.ask_tell import Drive

    with Client.from_environment() as client:
        search = Drive.submit(client, open("search.yaml").read())

Either the points come from you and the cluster trains them (`search.sampler: external`):

        results = search.evaluate([{"lr": 0.1}, {"lr": 0.01}])
        search.close()

or the points come from the search and you train them (`search.runner: external`):

        for trial in search.trials():
            for epoch in range(1, trial.max_units + 1):
                loss = train(trial.hparams)
                if not trial.tell({"val/loss": loss}, epoch):
                    break
            else:
                trial.complete()

Every call may be repeated after a lost answer: it counts once.
"""

from __future__ import annotations

from .client.asynchronous import AsyncDrive
from .client.drive import TERMINAL_TRIAL, Drive, ExternalTrial, Result

__all__ = ["TERMINAL_TRIAL", "AsyncDrive", "Drive", "ExternalTrial", "Result"]
