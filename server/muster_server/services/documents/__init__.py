"""The experiment document: reading it, filling it in, and saying what is wrong with it.

`resolve(text, overrides)` never raises for what a user wrote: it answers with the resolved
configuration or with every problem found, each with the dotted path it is about.
"""

from .bundles import check_entry_file, check_line_ends, check_requirements
from .entrypoints import default_launcher, launcher_of_role, planned_command
from .reading import Unreadable, read_document
from .resolving import Resolved, resolve, search_spec

__all__ = [
    "Resolved",
    "Unreadable",
    "check_entry_file",
    "check_line_ends",
    "check_requirements",
    "default_launcher",
    "launcher_of_role",
    "planned_command",
    "read_document",
    "resolve",
    "search_spec",
]
