"""Requests of a transcript's clients: turns the words of a command into a message."""

import re
from collections.abc import Callable
from typing import Protocol

from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    HoldGroup,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    ListNotes,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from tests.transcripts.rig import Link

_UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DEFAULTS = {"group": "g", "type": "consumer", "protocols": "range", "session": "10s", "rebalance": "60s", "v": "9"}
Options = dict[str, str]


def milliseconds(words: str) -> int:
    """Return the duration that `3s`, `500ms` or `7d` means."""
    found = re.fullmatch(r"(-?\d+)(ms|s|min|h|d)", words)
    assert found, f"{words!r} is no duration"
    return int(found[1]) * _UNITS[found[2]]


class Client:
    """State that the client keeps."""

    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self.link = link
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.options: Options = dict(_DEFAULTS)


class Names(Protocol):
    """Maps the names in a transcript to member ids."""

    def id_of(self, word: str) -> str: ...


def _member_of(script: Names, client: Client, options: Options) -> str:
    return script.id_of(options["id"]) if "id" in options else client.member_id


def _generation_of(client: Client, options: Options) -> int:
    return int(options.get("generation", client.generation))


def _protocols(client: Client, options: Options) -> tuple[JoinProtocol, ...]:
    if options.get("metadata", "").startswith("0x"):
        metadata = bytes.fromhex(options["metadata"][2:])
    elif "topics" in options:
        metadata = encode_subscription(Subscription(tuple(filter(None, options["topics"].split(",")))))
    else:
        metadata = options.get("metadata", client.name).encode()
    return tuple(JoinProtocol(name, metadata) for name in options["protocols"].split(",") if name)


def _join(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    version = int(options["v"])
    return JoinGroup(
        group_id=options["group"],
        session_timeout_ms=milliseconds(options["session"]),
        rebalance_timeout_ms=-1 if version == 0 else milliseconds(options["rebalance"]),
        member_id=_member_of(script, client, options),
        group_instance_id=options.get("instance"),
        protocol_type=options["type"],
        protocols=_protocols(client, options),
        reason=options.get("reason"),
        wants_member_id_first=version >= 4,
        accepts_skip_assignment=version >= 9,
    )


def _sync(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    named = {"id", "generation", "instance", "group", "type", "protocol", "v"}
    return SyncGroup(
        group_id=options["group"],
        generation_id=_generation_of(client, options),
        member_id=_member_of(script, client, options),
        group_instance_id=options.get("instance"),
        protocol_type=given.get("type"),
        protocol_name=given.get("protocol"),
        assignments=tuple(
            SyncGroupAssignment(script.id_of(name), data.encode()) for name, data in given.items() if name not in named
        ),
        must_name_protocol="must-name-protocol" in rest,
    )


def _heartbeat(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    return Heartbeat(
        options["group"],
        _generation_of(client, options),
        _member_of(script, client, options),
        options.get("instance"),
    )


def _leave(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    def entry(word: str) -> LeavingMember:
        member, _, instance = word.partition("#")
        return LeavingMember(script.id_of(member) if member else "", instance or None, options.get("reason"))

    mine = LeavingMember(client.member_id, options.get("instance"), options.get("reason"))
    return LeaveGroup(options["group"], tuple(map(entry, rest)) if rest else (mine,))


def _partition(word: str) -> tuple[str, int]:
    topic, _, index = word.rpartition("-")
    return topic, int(index)


def _by_topic(words: list[str]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in map(_partition, words):
        topics.setdefault(topic, []).append(index)
    return topics


def _commit(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    topics: dict[str, list[OffsetCommitPartition]] = {}
    metadata = _metadata(options)
    for name, value in given.items():
        if re.fullmatch(r"\w+-\d+", name):
            topic, index = _partition(name)
            offset, _, own = value.partition(":")
            text = _metadata({"metadata": own}) or metadata
            part = OffsetCommitPartition(index, int(offset), committed_metadata=text)
            topics.setdefault(topic, []).append(part)
    simple = "simple" in rest
    version = int(options["v"])
    return OffsetCommit(
        group_id=options["group"],
        topics=tuple(OffsetCommitTopic(name, tuple(parts)) for name, parts in topics.items()),
        generation_id=int(options.get("generation", -1)) if simple else _generation_of(client, options),
        member_id="" if simple else _member_of(script, client, options),
        group_instance_id=options.get("instance"),
        retention_time_ms=milliseconds(options["retention"]) if "retention" in options else -1,
        absent_group_error=ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION,
        knows_member_epochs=version >= 9,
    )


def transactional_commit(producer_id: int, options: Options, client: Client | None) -> Message:
    """Offsets of the producer's transaction, with the member's id or, as old clients do, with none."""
    topics = []
    for word, value in options.items():
        if re.fullmatch(r"\w+-\d+", word):
            topic, index = _partition(word)
            topics.append(TxnOffsetCommitTopic(topic, (TxnOffsetCommitPartition(index, int(value)),)))
    return TxnOffsetCommit(
        transactional_id="tx",
        group_id=options.get("group", "g"),
        producer_id=producer_id,
        producer_epoch=0,
        topics=tuple(topics),
        generation_id=int(options.get("generation", -1 if client is None else client.generation)),
        member_id="" if client is None else client.member_id,
    )


def _metadata(options: Options) -> str | None:
    """`x*4096` is that many of the letter."""
    word = options.get("metadata")
    if word and "*" in word:
        letter, _, times = word.partition("*")
        return letter * int(times)
    return word or None


def _fetch(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    topics = None
    if rest != ["all"]:
        topics = tuple(OffsetFetchTopic(name, tuple(indexes)) for name, indexes in _by_topic(rest).items())
    groups = tuple(OffsetFetchGroup("" if name == "-" else name, topics) for name in options["group"].split(","))
    return OffsetFetch(groups, require_stable="require-stable" in given)


def _delete_offsets(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    topics = tuple(OffsetDeleteTopic(name, tuple(indexes)) for name, indexes in _by_topic(rest).items())
    return OffsetDelete(options["group"], topics)


def _describe(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    return DescribeGroups(tuple(rest or ["g"]), absent_is_error=int(given.get("v", 6)) >= 6)


def _list(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    def words(key: str) -> tuple[str, ...]:
        return tuple(given[key].split(",")) if key in given else ()

    return ListGroups(words("states"), words("types"))


def _delete_groups(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    return DeleteGroups(tuple(rest or ["g"]))


def _notes(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    return ListNotes(options["group"])


def _hold(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    return HoldGroup(options["group"], milliseconds(rest[0]), int(given.get("members", 0)))


def _release(script: Names, client: Client, options: Options, given: Options, rest: list[str]) -> Message:
    return HoldGroup(options["group"], 0)


SENT: dict[str, Callable[[Names, Client, Options, Options, list[str]], Message]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "commit": _commit,
    "fetch": _fetch,
    "delete-offsets": _delete_offsets,
    "describe": _describe,
    "list": _list,
    "delete-groups": _delete_groups,
    "notes": _notes,
    "hold": _hold,
    "release": _release,
}
