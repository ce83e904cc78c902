"""Probes of a group with a member: who may describe it, and which topics a pattern matches. An administrator is
the member, then the principal itself."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from interop.access.reply_lines import reply_line
from interop.access.states import Names
from protocol.messages import Message
from protocol.messages.consumer_groups import JOINING, LEAVING, ConsumerGroupDescribe, ConsumerGroupHeartbeat
from protocol.messages.groups import DeleteGroups

Ask = Callable[[Message, int], Awaitable[Any]]
"""Sends a request in a version."""

PATTERN: Final = "ConsumerGroupHeartbeat with a pattern"
_SUBSCRIBED: Final = (
    "ConsumerGroupDescribe of a member of one topic",
    "ConsumerGroupDescribe of a member that names an absent topic too",
    "ConsumerGroupDescribe of a member of two topics",
)
TITLES: Final = (*_SUBSCRIBED, PATTERN)
_BEAT, _DESCRIBE, _DELETE = 1, 1, 2
"""Versions of the requests."""
_BEATS: Final = 15
"""Heartbeats after which a member without topics will get none."""


async def ask_living(
    administrator: Ask, principal: Ask, rest: Callable[[], Awaitable[None]], names: Names, ids: Mapping[str, bytes]
) -> dict[str, str]:
    """Return the principal's answers by title. `rest` lets the server go on; afterwards there is no such group."""
    answers = {}
    epoch, has = JOINING, frozenset[bytes]()
    absent = f"{names.other_topic}-absent"
    subscriptions = (names.topic,), (names.topic, absent), (names.topic, names.other_topic)
    for title, topics in zip(_SUBSCRIBED, subscriptions, strict=True):
        wanted = frozenset(ids[one] for one in topics if one in ids)
        subscription: dict[str, Any] = {"subscribed_topic_names": topics}
        while subscription or has != wanted:
            reply = await administrator(_beat(names, "m", epoch, **subscription), _BEAT)
            assert not reply.error_code, reply
            epoch, subscription = reply.member_epoch, {}
            if reply.assignment is not None:
                has = frozenset(one.topic_id for one in reply.assignment.topic_partitions)
            await rest()
        answers[title] = reply_line(await principal(ConsumerGroupDescribe((names.group,), True), _DESCRIBE), names, ids)
    await administrator(_beat(names, "m", LEAVING), _BEAT)
    answers[PATTERN] = await _matched(principal, rest, names, ids)
    await administrator(_beat(names, "own", LEAVING), _BEAT)
    await administrator(DeleteGroups((names.group,)), _DELETE)
    return answers


async def _matched(principal: Ask, rest: Callable[[], Awaitable[None]], names: Names, ids: Mapping[str, bytes]) -> str:
    """Return what a member of the principal gets that subscribes to both topics by a pattern."""
    reply = await principal(_beat(names, "own", JOINING, subscribed_topic_regex=f".*{names.topic}"), _BEAT)
    known = {topic_id: name.removesuffix(names.tag) for name, topic_id in ids.items()}
    for _ in range(_BEATS):
        if reply.error_code:
            return str(reply.error_code.name)
        given = () if reply.assignment is None else reply.assignment.topic_partitions
        if given:
            return ", ".join(sorted(known.get(one.topic_id, "another") for one in given))
        await rest()
        reply = await principal(_beat(names, "own", reply.member_epoch), _BEAT)
    return "nothing"


def _beat(names: Names, member_id: str, epoch: int, **subscription: Any) -> ConsumerGroupHeartbeat:
    own: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": ()} if epoch == JOINING else {}
    return ConsumerGroupHeartbeat(names.group, member_id, epoch, **own, **subscription)
