"""Checks of a StartMember that do not depend on the group, in the order clients can observe
(docs/spec/client-balanced-groups.md#6.1, checks 1 to 5)."""

import re
from collections.abc import Callable

from coordinator.groups.client_balanced.grants import CONSUME_POSITIONS
from coordinator.groups.table import Refusal
from protocol.errors import ErrorCode
from protocol.messages.balanced import CLIENT_MODE, SERVER_MODE, StartMember
from protocol.partition_key import may_be_keyed

_MODES = (CLIENT_MODE, SERVER_MODE)
_MOST_CHARACTERS = 1_024
_MOST_TOPICS = 1_024
_MOST_FILTERS, _MOST_FILTER_CHARACTERS = 500, 256
_GROUP = re.compile(r"[A-Za-z][A-Za-z0-9._-]*", re.ASCII)


def refuse_identity(request: StartMember, session_timeouts: tuple[int, int]) -> Refusal | None:
    """Check 1: names and numbers. `session_timeouts`: the shortest and the longest."""
    shortest, longest = session_timeouts
    if len(request.group_id) > _MOST_CHARACTERS or not _GROUP.fullmatch(request.group_id):
        return _bad("group_id: a letter, then letters, digits and ._-, at most 1024 characters")
    for name, text in (("consumer_id", request.consumer_id), ("instance_id", request.instance_id)):
        if text is not None and not (text.strip() and len(text) <= _MOST_CHARACTERS):
            return _bad(f"{name}: at least one character that is not blank, and at most {_MOST_CHARACTERS}")
    if not shortest <= request.session_timeout_ms <= longest:
        return _bad(f"session_timeout_ms: from {shortest} to {longest}, not {request.session_timeout_ms}")
    if request.consume_position not in CONSUME_POSITIONS:
        return _bad(f"consume_position: one of {', '.join(CONSUME_POSITIONS)}")
    if request.mode not in _MODES:
        return _bad(f"mode: one of {', '.join(_MODES)}")
    return None


def refuse_targets(request: StartMember, is_deployed: Callable[[str], bool]) -> Refusal | None:
    """Checks 3 and 4: topics and filters to read, and the member's number."""
    if not 0 < len(request.topics) <= _MOST_TOPICS:
        return _bad(f"topics: at least one, and at most {_MOST_TOPICS}")
    for topic in request.topics:
        if not may_be_keyed(topic):
            return _bad(f"topics: {topic[:80]!r} must be a letter, then letters, digits and ._-, at most 64 characters")
    if refusal := _refuse_filters(request):
        return refusal
    for topic in request.topics:
        if not is_deployed(topic):
            return Refusal(ErrorCode.TOPIC_NOT_DEPLOYED, f"there is no topic {topic}")
    if request.source_count == 0:
        return _bad("source_count: how many members there will be, or negative for a group that does not count")
    if request.source_count > 0 and request.mode == SERVER_MODE:
        return _bad("source_count: negative, since a server-balanced group does not count its members")
    if request.source_count > 0 and not 0 <= request.node_id < request.source_count:
        return _bad(f"node_id: from 0 to {request.source_count - 1}, not {request.node_id}")
    return None


def refuse_forbidden(request: StartMember, topics: frozenset[str], filters: frozenset[str]) -> Refusal | None:
    """Check 5: topics and filters that an operator has forbidden to the group."""
    for topic in request.topics:
        if topic in topics:
            return Refusal(ErrorCode.GROUP_FORBIDDEN, f"the group may not read topic {topic} (group.forbidden.topics)")
        for one in request.filters.get(topic, ()):
            if one.strip() in filters:
                text = f"the group may not filter {topic} for {one.strip()!r} (group.forbidden.filters)"
                return Refusal(ErrorCode.CONTENT_FORBIDDEN, text)
    return None


def _refuse_filters(request: StartMember) -> Refusal | None:
    for topic, filters in request.filters.items():
        if topic not in request.topics:
            return _bad(f"filters: {topic[:80]!r} is none of the topics")
        if len(filters) > _MOST_FILTERS:
            return _bad(f"filters: at most {_MOST_FILTERS} for a topic")
        for one in filters:
            if not one.strip() or len(one.strip()) > _MOST_FILTER_CHARACTERS:
                return _bad(f"filters: none is blank, or longer than {_MOST_FILTER_CHARACTERS} characters")
    return None


def _bad(text: str) -> Refusal:
    return Refusal(ErrorCode.BAD_REQUEST, text)
