"""Replies that are encoded a piece at a time are the bytes that one go would make."""

import pytest

from protocol.apis import BY_MESSAGE
from protocol.kafka.writing import pausing_writer, writer
from protocol.messages.groups import ListedGroup, ListGroups, ListGroupsReply
from tests.groups.checks import returned

SCHEMA = BY_MESSAGE[ListGroups].reply


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("count", [0, 1, 127, 5_000])
def test_a_reply_encoded_with_pauses_is_the_same(version: int, count: int) -> None:
    groups = tuple(ListedGroup(f"group-{number}", "consumer", "Stable") for number in range(count))
    reply = ListGroupsReply(groups=groups, throttle_time_ms=7)
    assert returned(pausing_writer(SCHEMA, version)(reply)) == writer(SCHEMA, version)(reply)
    pauses = sum(1 for _ in pausing_writer(SCHEMA, version)(reply))
    assert (pauses > 0) is (count == 5_000)
    assert pauses <= 20
