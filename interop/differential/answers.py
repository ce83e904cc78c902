"""Answers of two servers as they can be compared: without ids, addresses and sentences that are each server's own."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from interop.differential.members import Names
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import ListGroupsReply

_MADE_ID = re.compile(r"^(?P<prefix>.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}$")
_UNPRINTABLE = re.compile(r"[^ -~]+")
_OWN = {"host": "HOST", "port": "PORT"}
_SENTENCES = ("error_message",)
_IDS = ("member_id", "leader")
UNANSWERED = "no answer"
_LONGEST = 100


class Unlike(NamedTuple):
    """One place where two answers differ. `path` has no indexes: `groups.members.client_host`."""

    path: str
    kafka: Any
    muster: Any

    def text(self) -> str:
        return f"{self.path}: Kafka {brief(self.kafka)}, Muster {brief(self.muster)}"


def normal(answer: Message | str | None, names: Names, unique: str) -> Any:
    """The answer as plain values. Group ids lose the part that is `unique` to a run of the history."""
    if answer is None:
        return UNANSWERED
    if isinstance(answer, ListGroupsReply):
        own = [one for one in answer.groups if one.group_id.startswith(unique)]
        answer = msgspec.structs.replace(answer, groups=tuple(own))
    return _plain(answer, names, unique)


def unlike(kafka: Any, muster: Any, path: str = "") -> Iterator[Unlike]:
    """All places where two normal answers differ."""
    if isinstance(kafka, dict) and isinstance(muster, dict) and kafka.keys() == muster.keys():
        for name in kafka:
            yield from unlike(kafka[name], muster[name], f"{path}.{name}" if path else name)
    elif isinstance(kafka, list) and isinstance(muster, list) and len(kafka) == len(muster):
        for one, other in zip(kafka, muster, strict=True):
            yield from unlike(one, other, path)
    elif kafka != muster:
        yield Unlike(path or "the answer", kafka, muster)


def _plain(value: Any, names: Names, unique: str) -> Any:
    match value:
        case ErrorCode():
            return value.name
        case msgspec.Struct():
            return {name: _field(name, getattr(value, name), names, unique) for name in value.__struct_fields__}
        case tuple():
            return sorted((_plain(one, names, unique) for one in value), key=repr)
        case str():
            return value.removeprefix(unique)
        case bytes():
            return value.decode("latin-1")
    return value


def _field(name: str, value: Any, names: Names, unique: str) -> Any:
    if name in _SENTENCES:
        return None
    if name == "topic_id":
        return names.of_topic_id.get(value, value.hex())
    if name in _IDS and isinstance(value, str):
        return _id(value, names)
    return _OWN.get(name) or _plain(value, names, unique)


def _id(value: str, names: Names) -> str:
    """A name, or for an id that its member has not heard yet what stands before the generated part."""
    known = names.of(value)
    found = _MADE_ID.match(value)
    return known or (f"{found['prefix']}-?" if found else value)


def brief(value: Any) -> str:
    """A normal answer, or a part of one, in a few words: its error where it is a whole answer."""
    if isinstance(value, dict) and "member_epoch" in value and "error_code" in value:
        return _brief_beat(value)
    if isinstance(value, dict) and "error_code" in value:
        generation = value.get("generation_id", -1)
        return str(value["error_code"]) + (f" generation {generation}" if generation >= 0 else "")
    text = _UNPRINTABLE.sub(".", str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _brief_beat(value: Any) -> str:
    """The answer to a ConsumerGroupHeartbeat: what the member may use stands there if it was told."""
    if value["error_code"] != "NONE":
        return str(value["error_code"])
    if value["assignment"] is None:
        return f"epoch {value['member_epoch']}"
    topics = [f"{one['topic_id']} {one['partitions']}" for one in value["assignment"]["topic_partitions"]]
    return f"epoch {value['member_epoch']}, {', '.join(topics) or 'nothing'}"
