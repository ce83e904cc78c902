"""Bugs of commits, transactions, expiry, and of what a load makes of the log."""

from tests.mutants.mutant import Edit, Mutant, Test, Transcript, Worlds

_EXPIRY = "coordinator/runtime/expiry_rules.py"
_OFFSETS = "coordinator/runtime/offset_table.py"
_SHARD = "coordinator/runtime/shard.py"
_TABLE = "coordinator/groups/classic/table.py"
_BOTH_ROADS = "tests/node/test_repeated_commits.py::test_both_roads_leave_the_same_node"

MUTANTS = (
    Mutant(
        "reply-before-sync",
        "A commit is answered when it is written, not when it is durable",
        (
            Edit(
                "coordinator/runtime/outbox.py",
                "        if position <= self._durable:\n            self.ready",
                "        if position >= 0:\n            self.ready",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "assignment-before-its-record",
        "A SyncGroup is answered before the generation's record is durable: a crash takes the generation back",
        (
            Edit(
                "coordinator/groups/classic/actions.py",
                "            out.reply(ref, _assigned(group, member))\n            restart",
                "            out.reply_at_once(ref, _assigned(group, member))\n            restart",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "zombie-commits",
        "A commit of a former member, or of an ended generation, is accepted",
        (
            Edit(
                "coordinator/groups/classic/guards.py",
                "    if refused := is_member(group, request):\n        return refused\n"
                "    return _NONE if request.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION\n"
                "\n\ndef may_commit_in_transaction",
                "    return _NONE\n\n\ndef may_commit_in_transaction",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "applied-though-refused",
        "A commit that the full disk refused is in force until the next restart",
        (
            Edit(
                _SHARD,
                "records, moment, producer)) is not None:\n            return failed\n        self._apply_offsets(",
                "records, moment, producer)) is not None:\n"
                "            self._apply_offsets(records, NO_PRODUCER if producer is None else producer[0], group)\n"
                "            return failed\n        self._apply_offsets(",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "group-tombstones-ignored-by-loading",
        "A group that was deleted is back after a restart",
        (
            Edit(
                _SHARD,
                "        elif isinstance(record, GroupTombstone):\n",
                "        elif isinstance(record, GroupTombstone) and not self.is_replaying:\n",
            ),
        ),
        Transcript("12_expiry"),
        "Redpanda #4900",
    ),
    Mutant(
        "offset-tombstones-ignored-by-loading",
        "An offset that expired or was deleted is back after a restart",
        (
            Edit(
                _SHARD,
                "        elif isinstance(record, OffsetTombstone):\n",
                "        elif isinstance(record, OffsetTombstone) and not self.is_replaying:\n",
            ),
        ),
        Transcript("12_expiry"),
    ),
    Mutant(
        "transaction-loaded-as-decided",
        "Loading treats pending offsets of a transaction as committed",
        (
            Edit(
                "coordinator/runtime/loader.py",
                "        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER\n",
                "        producer_id = NO_PRODUCER\n",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "older-transaction-wins",
        "A transaction's offset that was written before a plain commit replaces it when the transaction is committed",
        (
            Edit(
                _OFFSETS,
                "                self.pending.overtake(record.group_id, (record.topic, record.partition))\n",
                "                pass\n",
            ),
        ),
        Worlds(),
        "KAFKA-5247",
    ),
    Mutant(
        "older-transaction-wins-when-loaded",
        "The fast path for plain commits does not replace pending offsets: a restart changes the offset",
        (
            Edit(
                "coordinator/runtime/loader.py",
                "if is_plain and not shard.offsets.pending else (0, 0)",
                "if is_plain else (0, 0)",
            ),
        ),
        Worlds(),
        "Redpanda #31483",
    ),
    Mutant(
        "aborted-offsets-count",
        "An aborted transaction's offsets are committed",
        (Edit(_OFFSETS, "            if is_committed:\n", "            if True:\n"),),
        Transcript("10_offsets"),
    ),
    Mutant(
        "deleted-offset-comes-back-with-its-transaction",
        "An offset that is deleted while a transaction has another for it comes back with the commit marker",
        (
            Edit(
                _OFFSETS,
                "        if self.pending:\n            self.pending.remove(group_id, (topic, partition))\n",
                "",
            ),
        ),
        Transcript("10_offsets"),
        "KAFKA-14505",
    ),
    Mutant(
        "subscribed-topics-expire",
        "Offsets of a live group expire although its members subscribe to the topic",
        (Edit(_EXPIRY, "    if key[0] in rule.subscribed:\n        return KeepReason.SUBSCRIBED\n", ""),),
        Transcript("12_expiry"),
        "KAFKA-4682",
    ),
    Mutant(
        "offsets-expire-while-members-rebalance",
        "Offsets of a group that is rebalancing expire: what its members read is not known then",
        (
            Edit(
                _EXPIRY,
                "    if classic.state is not GroupState.STABLE:\n        return KeepReason.REBALANCING\n",
                "    if classic.state is not GroupState.STABLE:\n        return Rule(None)\n",
            ),
            Edit(_TABLE, "preparing=offsets.note_expired,", "preparing=offsets.expire_unsubscribed,"),
            Edit(_TABLE, "completing=offsets.note_expired,", "completing=offsets.expire_unsubscribed,"),
        ),
        Transcript("12_expiry"),
        "KAFKA-13636",
    ),
    Mutant(
        "empty-group-expires-by-commit-time",
        "Offsets of an Empty group are counted from their commits and not from when the last member left",
        (
            Edit(
                _EXPIRY,
                "return Rule(classic.state_since_ms if is_known else None)",
                "return Rule(None)",
            ),
        ),
        Transcript("12_expiry"),
        "KAFKA-4682 (KIP-211)",
    ),
    Mutant(
        "no-retention-is-a-time",
        "The -1 of a commit without a retention is used as its expiry time: the offset expires at once",
        (
            Edit(
                _EXPIRY,
                "    if committed.expire_timestamp_ms != _NO_RETENTION:\n",
                "    if committed.expire_timestamp_ms >= _NO_RETENTION:\n",
            ),
        ),
        Transcript("12_expiry"),
        "KAFKA-8069",
    ),
    Mutant(
        "group-of-an-open-transaction-expires",
        "A group that has nothing but a transaction's pending offsets is deleted by expiry",
        (
            Edit(
                "coordinator/tasks/expiration.py",
                "    return not offsets.pending.of(group_id) and offsets.count_of(group_id) == going\n",
                "    return offsets.count_of(group_id) == going\n",
            ),
        ),
        Transcript("12_expiry"),
        "KAFKA-19163",
    ),
    Mutant(
        "offset-of-an-open-transaction-expires",
        "An offset expires while a transaction has another for its partition: what is pending goes with it",
        (Edit(_EXPIRY, "    if key in pending:\n        return KeepReason.PENDING\n", ""),),
        Transcript("12_expiry"),
        "Redpanda #31483",
    ),
    Mutant(
        "compaction-races-replay",
        "Logs of shards that are still being loaded are cleaned",
        (
            Edit(
                "coordinator/tasks/cleaning.py",
                "        if shard.state is ShardState.ACTIVE and shard.log.files is not None:\n",
                "        if shard.log.files is not None:\n",
            ),
        ),
        Test("tests/node/test_compaction_chore.py::test_a_shard_that_is_loading_is_left_alone"),
    ),
    Mutant(
        "offsets-fetched-beside-a-commit",
        "A member that is back in its generation asks for its offsets while its last commit is tried again: it reads "
        "again what it has committed",
        (
            Edit(
                "membership/operations.py",
                "        return self.call is None and all(one.offsets.keys().isdisjoint(self.partitions) "
                "for one in commits)\n",
                "        return self.call is None\n",
            ),
        ),
        Test(
            "tests/client/test_pending_operations.py::test_offsets_are_asked_for_when_a_commit_of_the_same_partitions_has_ended"
        ),
    ),
    Mutant(
        "repeated-commit-outside-the-state-table",
        "A commit that repeats the last one with other offsets is stored though its generation has ended",
        (
            Edit(
                "coordinator/handlers/repeated_commit.py",
                "            or not permits(classic, first, commit)\n",
                "",
            ),
        ),
        Test(_BOTH_ROADS),
    ),
    Mutant(
        "repeated-commit-goes-back-unseen",
        "A rewind by a commit that repeats the last one is not noted, and not refused where it must be",
        (Edit(_OFFSETS, "                if previous > offset:\n                    return None\n", ""),),
        Test(_BOTH_ROADS),
    ),
    Mutant(
        "repeated-commit-beside-a-transaction",
        "A commit that repeats the last one is replaced by what a transaction had pending before it",
        (Edit(_OFFSETS, "if known is None or self.pending.by_group:", "if known is None:"),),
        Test("tests/node/test_repeated_commits.py::test_a_commit_overtakes_what_a_transaction_has_pending"),
    ),
)
