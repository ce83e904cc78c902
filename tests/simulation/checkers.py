"""Invariants after every step, with all faults. A checker sees the clients' view, and looks into the node only to
compare.
"""

from collections import defaultdict
from typing import Any

from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.notes import Cause
from coordinator.groups.classic.state import ClassicGroup
from coordinator.node.node import AnyNode
from membership.topic_partition import TopicPartition
from protocol.consumer_protocol import decode_assignment
from protocol.errors import ErrorCode
from protocol.messages.groups import ListNotes, SyncGroup
from protocol.messages.offsets import OffsetCommit, OffsetFetch
from tests.groups.checks import check_counts, check_expirations, check_group
from tests.simulation.errors import Broken
from tests.simulation.heartbeats import Heartbeats
from tests.simulation.members import SimMember
from tests.simulation.network import Link

__all__ = ["Broken", "Checkers"]

KEPT_GENERATIONS = 50
_UNSETTLED = (GroupState.PREPARING, GroupState.COMPLETING)

Offsets = dict[tuple[str, TopicPartition], int]


def _commits(message: OffsetCommit) -> list[tuple[tuple[str, TopicPartition], int]]:
    return [
        ((message.group_id, TopicPartition(topic.name, part.partition_index)), part.committed_offset)
        for topic in message.topics
        for part in topic.partitions
    ]


def _who(member_id: str) -> str:
    """Return the member's name: a static member keeps the assignment of its instance, whatever id it returned with."""
    return member_id.rsplit("-", 1)[0] if member_id.startswith("instance-") else member_id


def _reader(member: SimMember) -> str:
    """Return the name by which a member reads: its instance's, since a replaced instance reads on."""
    return member.settings.group_instance_id or member.name


def _without(table: Any, group_id: str) -> Any:
    """Return a table, whose keys begin with a group, without the entries of that group."""
    for key in [key for key in table if key[0] == group_id]:
        del table[key]
    return table


class Checkers:
    """Watches one world."""

    def __init__(self) -> None:
        self.heartbeats = Heartbeats()
        self._plans: dict[tuple[str, int], list[dict[str, bytes]]] = defaultdict(list)
        self._handed_out: dict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)
        self._generation: dict[str, int] = {}
        self._acknowledged: Offsets = {}
        self._known: dict[int, int] = {}
        self._known_offsets: dict[int, Offsets] = {}
        self._looks: dict[str, tuple[Any, ...]] = {}
        self._looked_at: AnyNode | None = None
        self._read_to: Offsets = defaultdict(int)
        self._readers: dict[tuple[str, TopicPartition], tuple[int, str]] = {}
        # Commits that were sent and not answered: such a one may be taken at any time, after newer ones too.
        self._in_doubt: dict[tuple[str, TopicPartition], list[int]] = defaultdict(list)
        self._superseded: dict[int, set[tuple[str, TopicPartition]]] = {}
        """Partitions of a commit that another member has read by a later assignment than the sender."""

    # --- what members ask and hear ---

    def asked(self, member: SimMember, message: Any) -> None:
        """Remember what was known when the request was sent: its answer is compared with that only."""
        match message:
            case SyncGroup():
                if message.assignments:
                    plan = {_who(line.member_id): line.assignment for line in message.assignments}
                    self._plans[message.group_id, message.generation_id].append(plan)
                    self._forget_generation(message.group_id, message.generation_id - KEPT_GENERATIONS)
                self._known[id(message)] = self._generation.get(message.group_id, -1)
            case OffsetCommit() | OffsetFetch():
                generation = self._generation.get(message.group_id, -1) if isinstance(message, OffsetCommit) else -1
                self._known[id(message)] = generation
                for key, offset in _commits(message) if isinstance(message, OffsetCommit) else ():
                    self._in_doubt[key].append(offset)
                self._known_offsets[id(message)] = dict(self._acknowledged)
                if isinstance(message, OffsetCommit):
                    self._superseded[id(message)] = {
                        key for key, _ in _commits(message) if self._is_superseded(member, key)
                    }

    def sent(self, message: Any, link: Link, now_ms: int) -> None:
        self.heartbeats.sent(message, link, now_ms)

    def _forget_generation(self, group_id: str, generation_id: int) -> None:
        """Forget the generation: a long world has many."""
        self._plans.pop((group_id, generation_id), None)
        self._handed_out.pop((group_id, generation_id), None)

    def heard(self, member: SimMember, message: Any, reply: Any) -> None:
        known = self._known.pop(id(message), -1)
        offsets = self._known_offsets.pop(id(message), {})
        match message:
            case SyncGroup() if reply.error_code is ErrorCode.NONE:
                self._assignment_heard(message, reply.assignment, known)
            case OffsetCommit():
                self._commit_heard(message, reply, known, offsets)
            case OffsetFetch():
                self._fetch_heard(reply, offsets)

    def _assignment_heard(self, message: SyncGroup, assignment: bytes, known: int) -> None:
        key = (message.group_id, message.generation_id)
        if message.generation_id < known:
            raise Broken(f"{message.group_id}: a sync of generation {message.generation_id} answered after {known}")
        self._generation[message.group_id] = max(message.generation_id, self._generation.get(message.group_id, -1))
        handed_out = self._handed_out[key]
        handed_out[_who(message.member_id)] = assignment
        if not any(all(plan.get(who, b"") == given for who, given in handed_out.items()) for plan in self._plans[key]):
            raise Broken(f"{key}: no leader assigned {handed_out}")
        owners: dict[tuple[str, int], str] = {}
        for member_id, given in handed_out.items():
            for topic, partitions in decode_assignment(given).partitions if given else ():
                for partition in partitions:
                    other = owners.setdefault((topic, partition), member_id)
                    if other != member_id:
                        raise Broken(f"{key}: {topic}-{partition} is {other}'s and {member_id}'s")

    def _commit_heard(self, message: OffsetCommit, reply: Any, known: int, offsets: Offsets) -> None:
        sent = {(t.name, p.partition_index): p.committed_offset for t in message.topics for p in t.partitions}
        superseded = self._superseded.pop(id(message), set())
        for key, offset in _commits(message):
            self._in_doubt[key].remove(offset)
        for topic in reply.topics:
            for part in topic.partitions:
                if part.error_code is ErrorCode.NONE:
                    key = (message.group_id, TopicPartition(topic.name, part.partition_index))
                    offset = sent[topic.name, part.partition_index]
                    if message.generation_id < known:
                        raise Broken(
                            f"{key}: generation {message.generation_id} has committed after {known} was synced"
                        )
                    if key in superseded:
                        self._acknowledged[key] = min(offset, self.acknowledged(*key))
                    else:
                        self._accepted(key, offset, offsets.get(key, -1))

    def _accepted(self, key: tuple[str, TopicPartition], offset: int, known_offset: int) -> None:
        if offset < known_offset and self._is_lost(key, offset, known_offset):
            raise Broken(f"{key}: {offset} was accepted after {known_offset}")
        self.acknowledge(*key, offset)

    def acknowledge(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Note that a client learned this committed offset of the group."""
        self._acknowledged[group_id, partition] = max(offset, self.acknowledged(group_id, partition))

    def acknowledged(self, group_id: str, partition: TopicPartition) -> int:
        """Return the last acknowledged offset; -1 if there is none."""
        return self._acknowledged.get((group_id, partition), -1)

    def _is_lost(self, key: tuple[str, TopicPartition], offset: int, known: int) -> bool:
        """Return true if `known`, which was acknowledged, cannot have become `offset`. An older unanswered commit may
        be stored after it, which neither our protocol nor Kafka's prevents; its offset counts from now on."""
        if offset >= known or self._acknowledged.get(key, -1) <= offset:
            return False
        if offset not in self._in_doubt[key]:
            return True
        self._acknowledged[key] = offset
        return False

    def _fetch_heard(self, reply: Any, offsets: Offsets) -> None:
        for group in reply.groups:
            for topic in group.topics:
                for part in topic.partitions:
                    key = (group.group_id, TopicPartition(topic.name, part.partition_index))
                    known = offsets.get(key, -1)
                    if not part.error_code and self._is_lost(key, part.committed_offset, known):
                        raise Broken(f"{key}: told {part.committed_offset} though {offsets[key]} was acknowledged")

    def _is_superseded(self, member: SimMember, key: tuple[str, TopicPartition]) -> bool:
        """Return true if the member has missed the assignment by which another reads the partition: a static member
        may, since no rebalance removes it. Like Kafka's own clients it commits what it gives back in the next
        generation, over the offsets of its successor, who then commits smaller ones. The group reads on from
        either without a gap."""
        newest = self._readers.get(key)
        return newest is not None and member.settings.group_instance_id is not None and newest[1] != _reader(member)

    # --- what members read ---

    def begins(self, member: SimMember, partition: TopicPartition, offset: int) -> None:
        """Check that nothing is skipped: a group continues where one of its members has been."""
        group_id = member.settings.group_id
        if offset > self._read_to[group_id, partition]:
            read_to = self._read_to[group_id, partition]
            raise Broken(f"{group_id} begins {partition} at {offset}, and nobody has read beyond {read_to}")

    def reads(self, member: SimMember, partition: TopicPartition, up_to: int) -> None:
        """Check that no two members read a partition by assignments of one generation."""
        group_id, generation_id = member.settings.group_id, member.membership.assigned_in
        self._read_to[group_id, partition] = max(up_to, self._read_to[group_id, partition])
        reader = _reader(member)
        newest, other = self._readers.get((group_id, partition), (-1, reader))
        if generation_id == newest != -1 and reader != other:
            raise Broken(f"{group_id}: {other} and {reader} read {partition} in generation {generation_id}")
        if generation_id > newest:
            self._readers[group_id, partition] = generation_id, reader

    # --- what the node is like ---

    def after_step(self, node: AnyNode) -> None:
        """Check that every group is consistent, and that each in a rebalance has an operation that will end the phase.
        Only groups that differ from the step before are examined closely."""
        if not node.is_loaded:
            return  # sessions begin when all is read
        if self._looked_at is not node:
            self._looked_at, self._looks = node, {}  # what was not synced is not there any more, nor gone for good
        looks, purgatory = self._looks, node.core.purgatory
        if len(looks) > len(node.core.directory):
            self._gone(node)
        for group_id, one in node.core.directory.items():
            group, shard = one.classic, one.shard
            state = group.state
            if state in _UNSETTLED and (group.phase is None or group.phase.key not in purgatory):
                raise Broken(f"{group_id} is {state.title} and nothing will ever end that")
            look = (
                id(group),
                state,
                group.generation_id,
                group.awaiting_join,
                group.awaiting_sync,
                len(group.members),
                len(group.pending),
                group.metadata_bytes,
            )
            if looks.get(group_id) != look:
                looks[group_id] = look
                self._look_closely(node, group)
                check_counts(shard)
                visit = node.core.expiry._visit
                check_expirations(shard, None if visit is None else visit.group_id)

    def _gone(self, node: AnyNode) -> None:
        """Check that a deleted group had no member and no offset (spec, group protocol, section 4). A new group of that
        name begins with generation 1."""
        for group_id in self._looks.keys() - node.core.directory.keys():
            del self._looks[group_id]
            *_, last = node.core.journal.list(ListNotes(group_id, limit=1)).notes
            if last.cause != Cause.GROUP_EXPIRED or node.core.shard_of(group_id).offsets.holds(group_id):
                raise Broken(f"{group_id} is gone, after: {last.cause}")
            self._generation.pop(group_id, None)
            self._plans = _without(self._plans, group_id)
            self._handed_out = _without(self._handed_out, group_id)
            self._readers = _without(self._readers, group_id)

    def look_at_all(self, node: AnyNode) -> None:
        """Check all groups, from time to time, since a group that looks unchanged may be another."""
        for group in node.core.directory.values():
            self._look_closely(node, group.classic)

    def _look_closely(self, node: AnyNode, group: ClassicGroup) -> None:
        check_group(group, node.core.purgatory)
        for member in group.members.values():
            if member.session is None and member.join_ref is None and member.sync_ref is None:
                raise Broken(f"{group.group_id}: nobody watches the session of {member.member_id}")

    def after_recovery(self, node: AnyNode) -> None:
        """Check that nothing acknowledged is lost, and that no generation in which a member was synced goes back."""
        for (group_id, partition), offset in list(self._acknowledged.items()):
            kept = node.core.shard_of(group_id).offsets.get(group_id, partition.topic, partition.partition)
            if self._is_lost((group_id, partition), -1 if kept is None else kept.offset, offset):
                raise Broken(f"{group_id} {partition}: {offset} was acknowledged, {kept} is there after the crash")
        for group_id, generation_id in self._generation.items():
            _shard, group = node.core.find(group_id)
            if group is None or group.classic.generation_id < generation_id:
                was = None if group is None else group.classic.generation_id
                raise Broken(f"{group_id}: generation {was} after the crash, {generation_id} was synced")

    def notes_match(self, node: AnyNode, begun: int) -> None:
        """Check that each rebalance has exactly one note, written where it begins."""
        noted = sum(node.core.journal.rebalances.values())
        if noted != begun:
            raise Broken(f"{begun} rebalances began, {noted} notes say so")
