"""Requests with the nastiest values a frame can carry, to every method, in any order, with waits, lost connections,
full disks and clocks that jump: nothing raises, each request is answered at most once, groups stay whole.

`MUSTER_NASTY_STORIES=20000` runs it long.
"""

import os
import types
from typing import Annotated, Any, Union, get_args, get_origin

import msgpack
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.clock import Moment
from coordinator.node.effects import Close, Effect, Send
from coordinator.node.events import Lost, Opened, Received
from protocol.messages.balanced import StartMember
from protocol.native.methods import METHODS, FindCoordinatorWire, LeaveGroupWire, OffsetFetchWire
from protocol.record_batch import encode_batch
from tests.enumerations import share_of
from tests.groups.checks import check_counts, check_expirations, check_kinds
from tests.node.node_rig import WALL_MS, NodeRig

STORIES = int(os.environ.get("MUSTER_NASTY_STORIES", share_of(150)))

_WIRES = {"FindCoordinator": FindCoordinatorWire, "LeaveGroup": LeaveGroupWire, "OffsetFetch": OffsetFetchWire}
_GROUPS = ("g", "h", "")
_EDGES = tuple(n + by for n in (0, 2**15, 2**31, 2**32, 2**63) for by in (-2, -1, 0, 1) if n + by < 2**64)
_NUMBERS = st.one_of(
    st.sampled_from((0, 1, 2, 3, -1, -2, 10_000)),
    st.sampled_from((*_EDGES, *(-n for n in _EDGES if n <= 2**63))),
    st.integers(-(2**63), 2**64 - 1),
)
_TEXTS = st.one_of(
    st.sampled_from(
        ("", "g", "h", "orders", "consumer", "range", "\0", "..", "a/b", "__consumer_offsets", "ß" * 20_000)
    ),
    st.sampled_from(("x" * 249, "x" * 8_191, "x" * 32_767, "x" * 40_000, "\U0001f600" * 8_191, "\U0001f600" * 16_000)),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
_BATCH = encode_batch([(b"key", b"value")] * 3, timestamp_ms=WALL_MS)
_BYTES = st.one_of(
    st.sampled_from((b"", b"\0", _BATCH, _BATCH * 2, _BATCH[:-1], _BATCH + b"\0", bytes(61), b"x" * 70_000)),
    st.tuples(st.integers(0, len(_BATCH) - 1), st.integers(0, 255)).map(
        lambda at: _BATCH[: at[0]] + bytes((at[1],)) + _BATCH[at[0] + 1 :]
    ),
    st.binary(max_size=20),
)
_LIKELY = {
    "group_id": st.sampled_from(_GROUPS),
    "session_timeout_ms": st.sampled_from((6_000, 10_000, 1_800_000)),
    "protocol_type": st.sampled_from(("consumer", "connect")),
    "protocols": st.sampled_from(
        ([{"name": "range", "metadata": b"\0\0"}], [{"name": "a"}, {"name": "range"}], [{"name": "rr"}], [])
    ),
    "name": st.just("orders"),
    "topic": st.just("orders"),
    "partition_index": st.integers(0, 3),
    "index": st.integers(0, 3),
    "partition": st.integers(0, 3),
    "committed_offset": st.sampled_from((0, 5, 2**63 - 1)),
    "group_instance_id": st.sampled_from((None, None, None, "i", "j")),
    "retention_time_ms": st.sampled_from((-1, 1_000, 2**63 - 1)),
    "groups_names": st.lists(st.sampled_from(_GROUPS), max_size=3),
    "num_partitions": st.sampled_from((-1, 1, 3, 10_000, 10_001)),
    "replication_factor": st.sampled_from((-1, 1)),
    "consumer_id": st.sampled_from(("a", "b", "c")),
    "source_count": st.sampled_from((-1, -1, 2)),
    "consume_position": st.sampled_from(("first", "latest", "always_max")),
    "instance_id": st.sampled_from((None, None, "i")),
    "key": st.sampled_from(("1:orders:0", "1:orders:1", "1:orders:2", "1:orders:99", "9:orders:0")),
}


class HostileRequestsRig(NodeRig):
    """A node whose clients send arbitrary requests and count the replies."""

    def __init__(self) -> None:
        self.unpackers: dict[int, msgpack.Unpacker] = {}
        self.answers: dict[tuple[int, int], int] = {}
        self.asked: set[tuple[int, int]] = set()
        self.member_ids = [""]
        self.wall_ahead_ms = 0
        super().__init__(max_requests_per_connection=8, max_pending_ids_per_group=3, group_max_size=4, max_groups=5)
        self.make_topic()

    def _moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms + getattr(self, "wall_ahead_ms", 0))

    def open(self, number: int) -> None:
        self.unpackers[number] = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
        self.step(Opened(number, "native", "10.0.0.1"))

    def say(self, number: int, call: int, method: str, params: Any) -> None:
        if number not in self.unpackers:
            self.open(number)
        self.asked.add((number, call))
        self.step(Received(number, msgpack.packb([0, call, method, [params]])))

    def lose(self, number: int) -> None:
        self.unpackers.pop(number, None)
        self.step(Lost(number))

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(connection=number, data=data):
                unpacker = self.unpackers[number]
                unpacker.feed(data)
                for frame in unpacker:
                    self._count(number, frame)
            case Close(connection=number):
                self.unpackers.pop(number)
            case _:
                super()._carry_out(effect)

    def _count(self, number: int, frame: Any) -> None:
        if frame[0] != 1:
            return
        _, call, error, result = frame
        assert (number, call) in self.asked, "an answer to nothing"
        self.answers[number, call] = self.answers.get((number, call), 0) + 1
        assert self.answers[number, call] == 1, "answered twice"
        for said in (result, error[3] if error else None):
            if isinstance(said, dict) and said.get("member_id"):
                self.member_ids.append(said["member_id"])

    def check(self) -> None:
        core = self.node.core
        for shard in core.shards:
            check_counts(shard)
            check_expirations(shard)
            for group in shard.groups.values():
                check_kinds(group, core.purgatory)


def _any(annotation: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _any(arguments[0])
    if origin in (types.UnionType, Union):
        return st.one_of([_any(one) for one in arguments if one is not msgspec.UnsetType])
    if origin is tuple:
        return st.lists(_any(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(_any(arguments[0]), _any(arguments[1]), max_size=3)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _map(annotation)
    if isinstance(annotation, type) and issubclass(annotation, int) and annotation is not bool:
        return _NUMBERS
    plain = {str: _TEXTS, bytes: _BYTES, bool: st.booleans(), type(None): st.none(), float: st.floats()}
    return plain[annotation]


def _map(kind: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        value = _any(field.type) if (kind, field.name) != (StartMember, "topics") else st.just(["orders"])
        if (likely := _LIKELY.get(field.name)) is not None:
            value = st.one_of(likely, likely, likely, value)
        elif field.name in {"generation_id", "member_id", "member_epoch", "reg_epoch"}:
            value = st.one_of(st.just(_KNOWN), st.just(_KNOWN), value)
        (required if field.required or field.name in _LIKELY else optional)[field.name] = value
    return st.fixed_dictionaries(required, optional=optional)


_KNOWN = "(known)"
_PARAMS = {name: _any(_WIRES.get(name, method.request)) for name, method in METHODS.items()}
_OFTEN = (
    *("JoinGroup", "JoinGroup", "JoinGroup", "SyncGroup", "SyncGroup", "OffsetCommit", "OffsetCommit", "Heartbeat"),
    *("StartMember", "StartMember", "RegisterPartitions", "FetchRegistered", "ConfirmConsumed"),
)


def _known(params: Any, rig: HostileRequestsRig, which: int) -> Any:
    """Nasty values alone get nowhere: some ids and generations are true ones."""
    if isinstance(params, list):
        return [_known(one, rig, which) for one in params]
    if not isinstance(params, dict):
        return params
    true: dict[str, Any] = {"member_id": rig.member_ids[-1 - which % len(rig.member_ids)]}
    group_id = params.get("group_id", "")
    group = rig.node.core.directory.get(group_id)
    true["generation_id"] = group.classic.generation_id if group is not None else -1
    balanced = None if group is None else group.balanced
    member = None if balanced is None else balanced.members.get(params.get("consumer_id", ""))
    true["member_epoch"] = -1 if member is None else member.epoch
    true["reg_epoch"] = 1 + which % 2
    return {key: true[key] if value == _KNOWN else _known(value, rig, which) for key, value in params.items()}


@settings(
    max_examples=STORIES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(st.data())
def test_no_request_however_nasty_stops_the_node_or_is_answered_twice(data: st.DataObject) -> None:
    rig = HostileRequestsRig()
    for call in range(data.draw(st.integers(5, 25))):
        match data.draw(st.sampled_from(("say",) * 12 + ("wait", "lose", "hold", "flush", "full", "wall"))):
            case "say":
                method = data.draw(st.one_of(st.sampled_from(_OFTEN), st.sampled_from(sorted(METHODS))))
                params = _known(data.draw(_PARAMS[method]), rig, data.draw(st.integers(0, 3)))
                rig.say(data.draw(st.integers(1, 3)), call, method, params)
            case "wait":
                rig.wait(data.draw(st.sampled_from((0, 1, 500, 6_000, 300_000, 2**31, 2**40))))
            case "lose":
                rig.lose(data.draw(st.integers(1, 3)))
            case "hold":
                rig.holds_disk = True
            case "flush":
                rig.holds_disk = False
                if rig.flushes:
                    rig.flush()
            case "full":
                rig.store.disk_full = True
            case "wall":
                rig.wall_ahead_ms = data.draw(st.sampled_from((0, -WALL_MS, -(2**41), 2**40)))
        rig.wake_until_idle()
        rig.check()
