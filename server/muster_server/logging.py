"""Log events with fields: readable on a terminal, one JSON object per line elsewhere.

Everything goes to standard error; standard output is for data.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog

from .settings import Settings


def configure(settings: Settings, *, stream: TextIO | None = None) -> None:
    """Set up our own events and those of the libraries (uvicorn, alembic, celery) alike."""
    stream = stream or sys.stderr
    as_json = settings.log_format == "json" or (
        settings.log_format == "auto" and not stream.isatty()
    )
    level = getattr(logging, settings.log_level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    # Tracebacks as plain text: the prettier kinds print local variables, passwords among them.
    renderer: list[Any] = (
        [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
        if as_json
        else [
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = True
    # Our own request line has the request id and the duration; a second one would be noise.
    logging.getLogger("uvicorn.access").disabled = True
    for name in ("alembic", "httpx", "httpcore", "limits"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
