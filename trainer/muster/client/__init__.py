"""A client of the REST service, for the command line, scripts and notebooks.

    with Client.from_environment() as muster:
        experiment = muster.submit(Path("experiment.yaml").read_text())
        for line in muster.log_lines(trial_id, follow=True):
            ...

Needs the `cli` extra. Answers are the JSON objects of the API, as they come; the server describes
them under /docs.

Errors

ClientError (code, message, hint, fields, status)
├── NotConfigured   nobody said where the server is
├── Unreachable     no answer, also after retrying
└── Refused         the server answered with an error
"""

from .client import Client, Json, quoted
from .errors import ClientError, NotConfigured, Refused, Unreachable
from .target import Target, find_target, muster_home, write_target

__all__ = [
    "Client",
    "ClientError",
    "Json",
    "NotConfigured",
    "Refused",
    "Target",
    "Unreachable",
    "find_target",
    "muster_home",
    "quoted",
    "write_target",
]
