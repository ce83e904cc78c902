"""The stories of `muster.aio` over Kafka's protocol, at the server that these tests are pointed at.

At a musterd `tests/edges/test_aio.py` has them anyhow: here they are told for `make interop`, or with
`TEST_CLIENT_BOOTSTRAP`.
"""

import inspect
import os

import pytest

from tests.edges import test_aio
from tests.edges.client_kafka.conftest import Where

SHORT_SESSIONS = {"test_heartbeats_go_on_while_the_application_awaits_something_else"}
"""Sessions of 600 ms are nothing that a server takes unless it is told to."""


@pytest.fixture
def bootstrap(where: Where) -> str:
    return where.kafka


def test_there_are_stories_that_need_nothing_but_a_server() -> None:
    assert len(STORIES) >= 12
    assert vars(test_aio).keys() >= SHORT_SESSIONS


STORIES = {
    name: story
    for name, story in vars(test_aio).items()
    if name.startswith("test_")
    and set(inspect.signature(story).parameters) == {"bootstrap", "topic"}
    and name not in SHORT_SESSIONS
}
if "TEST_CLIENT_BOOTSTRAP" in os.environ or "TEST_CLIENT_WHOLE" in os.environ:
    globals().update(STORIES)
