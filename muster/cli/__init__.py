"""EDGE: the `muster` command: show groups, explain their rebalances, write records to topics and read them."""

import signal
import sys

from muster.cli.command import app

_TERMINATED = 143


def main() -> None:
    """Run the command; the process ends with 0, or with one of `muster.cli.failures.ExitCode`.
    SIGTERM ends it as an interruption does, so that a member leaves its group instead of being missed.
    """
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(_TERMINATED))
    app(prog_name="muster")


__all__ = ["app", "main"]
