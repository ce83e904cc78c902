"""Settings for every test."""

import gc
import os
import signal

import pytest
from hypothesis import settings

from tests import builds
from tests.enumerations import share_of


def pytest_configure() -> None:
    gc.set_threshold(10_000, 20, 50)  # the defaults take a tenth of the suite's time
    if wrong_build := builds.complaint(builds.ROOT, compiled=builds.is_compiled()):
        raise pytest.UsageError(wrong_build)


LONGEST_ID = 80


def pytest_collection_finish() -> None:
    """Keep ten thousand tests out of what the collector walks through: a twelfth of the suite's time."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long texts by their argument and number. A signed token is another one in each process, and pytest-xdist
    refuses to begin unless all workers collect the same tests."""
    return argname if isinstance(val, (str, bytes)) and len(val) > LONGEST_ID else None


# A shared machine stalls now and then: how long an example took says nothing about the code.
# A change is judged by its own faults: the properties take the same examples every time. `make explore` takes new ones.
settings.register_profile("muster", deadline=None, max_examples=share_of(100), print_blob=True, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=share_of(100), print_blob=True)
settings.load_profile(os.environ.get("MUSTER_EXAMPLES", "muster"))

# A script that starts the suite in the background, or nohup, has it ignore signals, and what it starts inherits that:
# no Ctrl-C would reach a command under test. Handlers are not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
