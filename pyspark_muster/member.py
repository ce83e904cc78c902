"""A query as a member: joins, looks up starts and ends of logs, and commits due offsets (docs/spec/spark-member.md#3).

It polls its group only when its caller does, since a rebalance must not be served within a batch.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from muster import CommitRefused, ErrorCode, GroupMember, Refused, RequestTimedOut, TopicPartition
from pyspark_muster.batch import find_partitions
from pyspark_muster.errors import DataLoss, NoSuchTopic
from pyspark_muster.options import Options
from pyspark_muster.outage import is_outage
from pyspark_muster.plan import Log, Planner

ANSWER_S = 5.0
"""Timeout of one request; a longer silence is an outage, which the progress reports."""
Offsets = Mapping[TopicPartition, int]


class NotSoleMember(Exception):
    """Raised if a query with `soleMember` shares its group."""


class QueryMember:
    """A group member whose positions are those of a `Planner`. Use it from one thread at a time."""

    def __init__(self, options: Options, planner: Planner) -> None:
        self.ends: Offsets = {}
        """End offsets of owned partitions, as last looked up."""
        self.deleted: set[str] = set()
        """Topics known to be deleted."""
        self.note = ""
        """Sentence about the last loss of partitions."""
        self._options = options
        self._planner = planner
        self._arrived: list[TopicPartition] = []  # assigned by the group, not yet looked up
        self._are_topics_known = False
        self._first: set[TopicPartition] | None = None  # there when the group began, and without an offset since
        self._checked_in = -1  # generation in which the member was last verified to be alone
        self._member = GroupMember(
            options.bootstrap,
            options.group,
            options.topics,
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
            on_lost=self._on_lost,
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=options.heartbeat_interval_ms,
            max_poll_interval_ms=options.max_poll_interval_ms,
            group_protocol=options.group_protocol,
            assignors=options.assignors,
            client_id=options.client_id,
            group_instance_id=options.group_instance_id,
            isolation_level=options.isolation_level,
            security=options.security,
            broker_security=options.broker_security,
        )
        if options.topics_pattern is not None:
            self._member.subscribe(pattern=options.topics_pattern)

    @property
    def member_id(self) -> str:
        return self._member.member_id

    @property
    def generation_id(self) -> int:
        return self._member.generation_id

    def close(self) -> None:
        """Leave the group."""
        self._member.close()

    # ------------------------------------------------------------------------------------------------------ the group

    def poll(self, timeout_s: float) -> bool:
        """Serve rebalances. Return true if the member has an assignment. Raises the client's errors, `DataLoss`,
        `NoSuchTopic`, `NotSoleMember`.
        """
        self._check_topics()
        self._see_beginning()
        is_steady = self._member.poll(timeout_s)
        if self._options.topics_pattern is not None and not self._are_topics_known:
            if self._member.has_nothing_to_read:
                raise NoSuchTopic(f"no topic matches the pattern {self._options.topics_pattern!r} (topicsPattern)")
            self._are_topics_known = is_steady
        if self._arrived:
            begins = self._begin_offsets(self._arrived)  # of the topics that exist
            committed = self._member.committed(list(begins), ANSWER_S)
            logs = self._logs(begins)  # after the offsets, which may grow with the logs
            later = logs.keys() - (self._first or set())
            self._planner.assigned({one: offset for one, offset in committed.items() if one in logs}, logs, later)
            self._arrived = []
        if is_steady and self._options.sole_member and self._checked_in != self._member.generation_id:
            self._check_sole()
            self._checked_in = self._member.generation_id
        return is_steady

    def _on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._arrived.extend(partitions)

    def _on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that were revoked or lost. Due offsets were committed before the poll that called this."""
        revoked = list(partitions)
        self._planner.revoked(revoked)
        self._arrived = [partition for partition in self._arrived if partition not in revoked]

    def _on_lost(self, partitions: Iterable[TopicPartition]) -> None:
        lost = list(partitions)
        if lost:
            self.note = (
                f"the member lost {len(lost)} partitions: it was not polled for maxPollIntervalMs, "
                f"{self._options.max_poll_interval_ms} ms, or not heard of for sessionTimeoutMs, "
                f"{self._options.session_timeout_ms} ms; others may have read their records again"
            )
        self._on_revoked(lost)

    def flush(self) -> None:
        """Commit due offsets. A refused commit is not an error: its offsets stay in the tail, as after a lost reply,
        and the next assignment shows whether they were stored. Raises the errors of an outage.
        """
        due = self._planner.due()
        if not due:
            return
        self._planner.trying(due)
        try:
            stored = self._member.commit(due, ANSWER_S)
        except CommitRefused:
            return
        except RequestTimedOut:
            known = set(self.deleted)
            self.end_offsets(list(due))  # coordinators store no offsets for deleted topics
            if self.deleted == known:
                raise
            return
        self._planner.committed(stored)
        if self._first is not None:
            self._first -= stored.keys()

    def _see_beginning(self) -> None:
        """Note before the first poll which partitions "latest" applies to: all that are there if the group has no
        offsets of them yet. Else it has begun, and partitions without an offset came later. Members that begin a group
        together all look before the first of them can commit.
        """
        if self._first is not None or self._options.starting_offsets != "latest":
            return
        there = self._partitions()
        offsets = self._member.committed(there, ANSWER_S).values()
        has_begun = not self._planner.restarts and any(offset is not None for offset in offsets)
        self._first = set() if has_begun else set(there)

    # --------------------------------------------------------------------------------------------------------- topics

    def owned_ends(self) -> Offsets:
        """Look up the end offsets of the owned partitions, and compare positions with logs that end before them. Raises
        `DataLoss`."""
        self.ends = self.end_offsets(list(self._planner.positions))
        beyond = [one for one, position in self._planner.positions.items() if position > self.ends.get(one, position)]
        if beyond:
            self._planner.compare(self._logs(self._begin_offsets(beyond)))
        return self.ends

    def end_offsets(self, partitions: list[TopicPartition]) -> Offsets:
        return self._look_up(self._member.end_offsets, partitions)

    def _begin_offsets(self, partitions: list[TopicPartition]) -> Offsets:
        return self._look_up(self._member.begin_offsets, partitions)

    def _logs(self, begins: Offsets) -> dict[TopicPartition, Log]:
        """Look up both ends of logs; partitions of deleted topics are omitted."""
        stable, ends = self.end_offsets(list(begins)), self._high_watermarks(list(begins))
        there = begins.keys() & stable.keys() & ends.keys()
        return {one: Log(begins[one], ends[one], stable[one]) for one in begins if one in there}

    def _high_watermarks(self, partitions: list[TopicPartition]) -> Offsets:
        """Look up ends of logs regardless of open transactions: no position lies beyond them."""
        return self._look_up(partial(self._member.end_offsets, isolation_level="read_uncommitted"), partitions)

    def all_read(self) -> bool:
        """Return true if the group has committed the ends of all logs, or beyond the last stable offset, so that a run
        with AvailableNow has nothing to do. Works without membership. Raises as `poll` does.
        """
        if self._options.topics_pattern is not None:
            return False
        self._check_topics()
        partitions = self._partitions()
        ends = self.end_offsets(partitions)
        committed = self._member.committed(list(ends), ANSWER_S) if ends else {}
        read = {one: offset for one, offset in committed.items() if offset is not None and offset >= ends[one]}
        if not ends or read.keys() != ends.keys():
            return False
        marks = self._high_watermarks([one for one, offset in read.items() if offset > ends[one]])
        if any(read[one] > mark for one, mark in marks.items()):
            return False  # its topic was made again: a member looks into that
        self.ends = ends
        return True

    def _partitions(self) -> list[TopicPartition]:
        """Look up all partitions of the topics."""
        if self._options.topics_pattern is not None:
            with self._options.connect() as cluster:
                return find_partitions(self._options, cluster)
        partitions: list[TopicPartition] = []
        for topic in self._options.topics:
            if topic not in self.deleted:
                try:
                    partitions += self._member.partitions_for(topic, ANSWER_S)
                except Refused as refused:
                    if refused.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        raise
                    self._topic_is_deleted(topic, refused)
        return partitions

    def _look_up(
        self, ask: Callable[[Iterable[TopicPartition], float], Offsets], partitions: list[TopicPartition]
    ) -> Offsets:
        """Look up all partitions at once; topic by topic if one does not exist."""
        try:
            return ask(partitions, ANSWER_S) if partitions else {}
        except Refused as refused:
            if refused.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        found: dict[TopicPartition, int] = {}
        for topic in sorted({partition.topic for partition in partitions}):
            try:
                found.update(ask([partition for partition in partitions if partition.topic == topic], ANSWER_S))
            except Refused as refused:
                if refused.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                self._topic_is_deleted(topic, refused)
        return found

    def _topic_is_deleted(self, topic: str, refused: Refused) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"{refused}; this query has read it, so it was deleted. Set failOnDataLoss to false to go on without it"
            ) from refused
        self.deleted.add(topic)
        self._planner.deleted(topic)

    def _check_topics(self) -> None:
        """Check once that the topics exist, since a member would wait for a missing one without an error. Raises
        `NoSuchTopic`."""
        if self._are_topics_known or self._options.topics_pattern is not None:
            return
        missing = {}
        for topic in self._options.topics:
            try:
                self._member.partitions_for(topic, ANSWER_S)
            except Refused as refused:
                if is_outage(refused) and refused.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                missing[topic] = str(refused)
        if missing and (self._options.fail_on_data_loss or len(missing) == len(self._options.topics)):
            raise NoSuchTopic("; ".join(missing.values()))
        self.deleted.update(missing)
        self._are_topics_known = True

    def unowned(self) -> list[TopicPartition]:
        """Look up which partitions of the topics this member does not own. Raises as `poll` does."""
        return [partition for partition in self._partitions() if partition not in self._planner.positions]

    def _check_sole(self) -> None:
        if others := self.unowned():
            raise NotSoleMember(
                f"another member of the group {self._options.group!r} has {', '.join(map(str, others))}, and "
                "soleMember is true: state of the query would not follow its partitions. Give it a group of its own"
            )
