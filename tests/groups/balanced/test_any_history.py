"""Any history of a client-balanced group: members that start, register, read, confirm, let go, fall silent, are
replaced; a disk that fills up, power that fails, topics that grow and go. What must hold does after each step."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages.balanced import ConsumeFromMax, OwnedKey, ReleasedKey
from protocol.messages.topics import CreatePartitions, GrowingTopic
from tests.enumerations import share_of
from tests.groups.balanced.group_rig import GroupRig, RigClient
from tests.groups.checks import check_expirations, check_kinds
from tests.simulation.replay import compare_with_replay

_NAMES = ("a", "b", "c", "d")
_WHO = st.sampled_from(_NAMES)
_PARTITIONS = st.integers(0, 2)
_OK = ErrorCode.NONE


class AnyHistory(RuleBasedStateMachine):
    """`stored` is what clients were told that is committed; `epochs` the largest of each partition."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = GroupRig(2, offsets_retention_check_interval_ms=3_600_000)
        self.clients: dict[str, RigClient] = {}
        self.stored: dict[int, int] = {}
        self.epochs: dict[str, int] = {}
        self.versions = self.partitions = 0

    def _client(self, name: str) -> RigClient:
        if name not in self.clients:
            self.clients[name] = self.rig.member(name)
        return self.clients[name]

    # --- what they do ---

    @rule(
        who=_WHO,
        number=st.integers(-1, 2),
        instance=st.sampled_from((None, "i")),
        session=st.sampled_from((6_000, 30_000)),
        holds=st.booleans(),
        position=st.sampled_from(("first", "latest", "always_max")),
    )
    def starts(self, who: str, number: int, instance: str | None, session: int, holds: bool, position: str) -> None:
        client = self._client(who)
        held = client.held() if holds else ()
        source_count = -1 if number < 0 else 3
        reply = client.start(
            source_count=source_count,
            node_id=number,
            instance_id=instance,
            session_timeout_ms=session,
            held=held,
            consume_position=position,
        )
        if reply.error_code is _OK:
            granted, named = {one.key: one.reg_epoch for one in reply.granted}, {one.key for one in held}
            assert named <= granted.keys() | {one.key for one in reply.lost}
            assert all(self._grant(key) == (who, epoch) for key, epoch in granted.items())
            assert {one.key for one in reply.lost} <= named, (
                "a start without a count takes away nothing it does not name"
            )

    @rule(who=_WHO, partition=_PARTITIONS, offset=st.integers(-1, 6), first=st.booleans())
    def registers(self, who: str, partition: int, offset: int, first: bool) -> None:
        owner = self._owner(partition)
        item = self._client(who).register(partition, offset, is_first=first)
        if item.error_code is _OK:
            assert owner in (None, who), f"{owner} lives and owns it"
            assert item.begin <= item.position <= item.end
            if offset >= 0:
                self.stored[partition] = item.position

    @rule(who=_WHO, partition=_PARTITIONS, consumed=st.booleans())
    def unregisters(self, who: str, partition: int, consumed: bool) -> None:
        item = self._client(who).unregister(partition, consumed=consumed)
        if item.error_code is _OK and item.committed_offset >= 0:
            self.stored[partition] = item.committed_offset

    @rule(who=_WHO, partition=_PARTITIONS, last=st.booleans())
    def reads(self, who: str, partition: int, last: bool) -> None:
        owner, before = self._owner(partition), self.rig.committed(partition)
        got = self._client(who).fetch(partition, last_consumed=last)
        if got.error_code in (_OK, ErrorCode.NOT_FOUND):
            assert owner == who
            assert got.position >= 0
        if self.rig.committed(partition) != before:
            assert owner == who and last
            self.stored[partition] = self.rig.committed(partition)

    @rule(who=_WHO, partition=_PARTITIONS, offset=st.none() | st.integers(-1, 6), consumed=st.booleans())
    def confirms(self, who: str, partition: int, offset: int | None, consumed: bool) -> None:
        owner = self._owner(partition)
        item = self._client(who).confirm(partition, offset, consumed=consumed)
        if item.error_code is _OK and consumed:
            assert owner == who
            self.stored[partition] = item.committed_offset

    @rule(who=_WHO, reports=st.booleans(), releases=st.booleans())
    def beats(self, who: str, reports: bool, releases: bool) -> None:
        client = self._client(who)
        owned = tuple(OwnedKey(key, epoch) for key, epoch in client.grants.items()) if reports else None
        released = tuple(ReleasedKey(key, epoch, False) for key, epoch in client.grants.items()) if releases else ()
        reply = client.beat(owned=owned, owned_version=len(client.grants), released=released)
        if reply.error_code is _OK and reports and not releases:
            lost = {one.key for one in reply.lost}
            for key, epoch in client.grants.items():
                grant = self._grant(key)
                assert (grant is not None and grant == (who, epoch)) == (key not in lost)

    @rule(who=_WHO)
    def leaves(self, who: str) -> None:
        client = self._client(who)
        if client.leave().error_code is _OK:
            assert who not in [one.consumer_id for one in self.rig.view().members]

    @rule(partition=st.integers(0, 1), count=st.integers(1, 3))
    def records_come(self, partition: int, count: int) -> None:
        self.rig.produce(partition, count)

    @rule(ms=st.sampled_from((1, 3_000, 6_000, 29_999, 60_000)))
    def time_passes(self, ms: int) -> None:
        self.rig.node_rig.wait(ms)

    @rule()
    def nobody_looks_at_leases_for_a_while(self) -> None:
        self.rig.node_rig.now_ms += 6_000

    @rule(full=st.booleans())
    def the_disk_fills_up_or_heals(self, full: bool) -> None:
        self.rig.node_rig.store.disk_full = full

    @rule()
    def power_fails(self) -> None:
        self.rig.restart()
        for client in self.clients.values():
            client.connection = self.rig.connection()

    @rule()
    def the_topic_grows(self) -> None:
        if self.partitions < 3:
            self.partitions += 1
            self.rig.node_rig.ask_inside(CreatePartitions((GrowingTopic("demo", 2 + self.partitions),)))

    @rule()
    def an_operator_wants_the_end(self) -> None:
        self.rig.node_rig.ask_inside(ConsumeFromMax(("g",), "op"))

    # --- what holds ---

    def _group(self) -> Any:
        group = self.rig.node_rig.node.core.directory.get("g")
        return None if group is None else group.balanced

    def _grant(self, key: str) -> tuple[str, int] | None:
        group = self._group()
        entry = None if group is None else group.owners.get(group.place_of(key))
        return None if entry is None else (entry.owner.member_id, entry.epoch)

    def _owner(self, partition: int) -> str | None:
        """Return the owner whose lease has not expired by the clock, even if no event has noticed."""
        group = self._group()
        member = None if group is None else group.owner(("demo", partition))
        return member.consumer_id if member and member.deadline_ms > self.rig.node_rig.now_ms else None

    @invariant()
    def nobody_is_stuck_and_nothing_is_miscounted(self) -> None:
        core = self.rig.node_rig.node.core
        for shard in core.shards:
            assert shard.state is ShardState.ACTIVE
            check_expirations(shard)
            for group in shard.groups.values():
                check_kinds(group, core.purgatory)

    @invariant()
    def replaying_the_log_gives_the_same(self) -> None:
        compare_with_replay(self.rig.node_rig.node)

    @invariant()
    def epochs_and_versions_never_go_back(self) -> None:
        group = self._group()
        if group is None:
            return
        for entry in group.owners.entries:
            key = group.key_of(entry)
            assert entry.epoch >= self.epochs.get(key, 0)
            self.epochs[key] = entry.epoch
        assert group.on_record.meta_version >= self.versions
        self.versions = group.on_record.meta_version

    @invariant()
    def what_is_stored_is_what_owners_said(self) -> None:
        for partition in range(3):
            assert self.rig.committed(partition) == self.stored.get(partition, -1)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(
    max_examples=share_of(60), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
