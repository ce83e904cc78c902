"""Answer an OffsetCommit that differs from the last one of its connection only in the offsets, by reusing the results
of that commit's checks.

Everything that may have changed since is re-validated: the group, the member, the topics, the cell of the state table,
limits, transactions, and the present offsets. A commit that needs more than new records in the log and in the table (a
first offset of a partition, a rewind, an error) is served like any other, by `offset_commit`. Both write the same
records.
"""

from collections.abc import Callable
from typing import Final

from coordinator.clock import Moment
from coordinator.core.admission import admit_write
from coordinator.core.core import Connection, Core
from coordinator.core.request_cost import OFFSET_COMMIT
from coordinator.groups.classic.offsets import commit, keep_alive
from coordinator.groups.classic.table import permits
from coordinator.runtime.group import GroupKind
from coordinator.runtime.kinds.commit_plan import CommitPlan
from coordinator.runtime.offset_table import TopicCommit
from coordinator.runtime.shard import ShardState
from protocol.messages.offsets import OffsetCommit
from protocol.messages.topics import NO_TOPIC_ID
from protocol.session import RepeatedCommit, RequestRef

_NO_RETENTION = -1
_CLASSIC: Final = GroupKind.CLASSIC
_ACTIVE: Final = ShardState.ACTIVE


class RepeatedCommits:
    """Repeated commits of all connections. While `is_off` each commit must be served as the first of its kind. Each of
    the `guards` returns true if it needs no more than the look it takes; else the commit is served as any other."""

    def __init__(self, core: Core) -> None:
        self.is_off = False
        self.guards: list[Callable[[Connection, OffsetCommit], bool]] = []
        self._core = core

    def serve(self, connection: Connection, number: int, message: RepeatedCommit, moment: Moment) -> bool:
        """Serve the commit by the plan of its connection. Return false, with nothing done, if that is not possible."""
        core, first, plan, now_ms = self._core, message.first, connection.commit_plan, moment.monotonic_ms
        if (
            plan is None
            or plan.message is not first
            or plan.committer.client is not connection.client
            or now_ms >= connection.session_ends_ms
            or self.is_off
        ):
            return False
        for guard in self.guards:
            if not guard(connection, first):
                return False
        group = core.directory.get(first.group_id)
        if group is None or group.kind is not _CLASSIC:
            return False
        shard, classic = group.shard, group.classic
        if (
            shard.state is not _ACTIVE
            or shard.deleting
            or classic.owners is not None
            or not permits(classic, first, commit)
            or admit_write(core)
            or not _are_as_before(core, plan)
            or not shard.store_again(group, plan, message.offsets, moment)
        ):
            return False
        member = keep_alive(classic, first.member_id, moment)
        if member is not None:
            member.connection = connection.number
        ref = RequestRef(connection.number, number, OffsetCommit, now_ms)
        shard.outbox.hold(shard.outbox.position_of(first.group_id), ref, plan.reply)
        core.budget.cost -= plan.cost
        core.count("commits_repeated")
        connection.is_heavy = False
        return True

    def learn(self, connection: Connection, commit: OffsetCommit) -> None:
        """Make the plan for commits like this one, unless there is one that may serve the next."""
        core, plan = self._core, connection.commit_plan
        if (
            plan is None
            or plan.message is not commit
            or plan.committer.client is not connection.client
            or not _are_as_before(core, plan)
        ):
            connection.commit_plan = plan_of(core, connection.number, commit)


def plan_of(core: Core, connection: int, message: OffsetCommit) -> CommitPlan | None:
    """Return the plan for commits like this one; None for one that must be served as it is: by no member, with text,
    a retention or a time, or with partitions that have no offset or are named twice."""
    group = core.directory.get(message.group_id)
    if group is None or message.generation_id < 0 or message.retention_time_ms != _NO_RETENTION or not message.topics:
        return None
    committed = group.shard.offsets.topics(message.group_id)
    topics: list[TopicCommit] = []
    for topic in message.topics:
        name, parts = topic.name or core.topics.name_of(topic.topic_id) or "", topic.partitions
        kept, indexes = committed.get(name, {}), tuple([part.partition_index for part in parts])
        if not indexes or len(set(indexes)) < len(indexes) or not kept.keys() >= set(indexes):
            return None
        if any(part.committed_metadata or part.commit_timestamp_ms >= 0 for part in parts):
            return None
        epochs = tuple([part.committed_leader_epoch for part in parts])
        asked_id = NO_TOPIC_ID if topic.name else topic.topic_id
        topics.append(TopicCommit(name, asked_id, kept[indexes[0]].topic_id, indexes, epochs))
    if len({topic.name for topic in topics}) < len(topics):
        return None
    return CommitPlan(message, core.committer(connection, message), OFFSET_COMMIT.of(core, message), topics)


def _are_as_before(core: Core, plan: CommitPlan) -> bool:
    """Return true if the topics have the names, the partitions, and the ids to record of before."""
    topics = core.topics
    for topic in plan.topics:
        name = topic.name
        count = topics.partition_count(name)
        if count is None or topic.highest >= count or topics.id_to_record(name) != (topic.recorded_id or NO_TOPIC_ID):
            return False
        if topic.asked_id != NO_TOPIC_ID and topics.name_of(topic.asked_id) != name:
            return False
    return True
