"""Stopping a producer that has unacknowledged records."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from muster.blocking import Producer
from muster.blocking.sent import Sent
from muster.cli.showing import printable
from muster.errors import MusterError
from protocol.words import counted

PATIENCE_S: Final = 5.0
"""Time for records to be acknowledged after a request to stop."""


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt, since supervisors of processes send that signal."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stop(producer: Producer, topic: str, sent: Sequence[Sent], unsent: int) -> None:
    """Close the producer, and print how long that takes and which records are lost, if any. `sent`: records not awaited
    yet; `unsent`: number of lines read and not sent. A second interruption gives up at once."""
    left = unsent + sum(not one.is_done for one in sent)
    try:
        if left:
            _say(
                f"stopping: {counted(left, 'record')} not acknowledged yet; waiting {PATIENCE_S:g} s at most, another "
                "Ctrl-C (or SIGTERM) gives up at once"
            )
        producer.close(PATIENCE_S)
    except KeyboardInterrupt:
        with suppress(MusterError):
            producer.close(0)  # the interruption may have come before the first close had begun
    except MusterError:
        pass  # counted below
    lost = unsent + sum(not _is_written(one) for one in sent)
    if lost:
        doubt = "" if unsent == lost else "; what was on its way may be written all the same"
        _say(f"gave up {counted(lost, 'record')} for {printable(topic)}{doubt}")
    elif left:
        _say("all records are acknowledged")


def _is_written(one: Sent) -> bool:
    return one.is_done and one.exception(0) is None


def _say(sentence: str) -> None:
    print(f"muster: {sentence}", file=sys.stderr, flush=True)
