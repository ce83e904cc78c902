"""EDGE: what the daemon writes to standard error: sentences of the command, and its log."""

import logging
import sys
from typing import Any

import structlog


def complain(sentence: str, code: int) -> int:
    print(f"musterd: {sentence}", file=sys.stderr)
    return code


def log_to_stderr() -> None:
    """Log console lines on a terminal, JSON elsewhere."""
    people = sys.stderr.isatty()
    if people:  # the formatter that structlog would choose shows local variables, passwords among them
        renderer: Any = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not people),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
