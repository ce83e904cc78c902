"""Commits, asked for and automatic: H30 to H39."""

from tests.mutants.mutant import Edit, without

_COMMITS = "muster/client/commits.py"
_CONSUMER = "muster/client/consumer.py"
_CONSUMING = "muster/core/consumer_state.py"
_OPERATIONS = "membership/operations.py"

MUTANTS = (
    without(
        "H30",
        "An automatic commit counts what its poll is only just handing out",
        Edit(
            _CONSUMER,
            "        consuming.begin(has_group=group is not None)\n        self._commit_if_due()\n",
            "        consuming.begin(has_group=group is not None)\n",
        ),
        Edit(
            _CONSUMER,
            "        self._consuming.hand_out(records)\n",
            "        self._consuming.hand_out(records)\n        self._commit_if_due()\n",
        ),
    ),
    without(
        "H31",
        "An automatic commit refused for now is tried again only when its interval is over",
        Edit(
            _CONSUMING,
            "            self._commit_at_ms = now_ms + self._commits.retry_backoff_ms\n",
            "            pass\n",
        ),
    ),
    without(
        "H32",
        "Records of partitions about to be revoked are handed out after their last commit",
        Edit(
            _CONSUMING,
            "        self.subscription.mark_pending_revocation(partitions)\n        if not self._commits",
            "        if not self._commits",
        ),
    ),
    without(
        "H33",
        "The commit before a join is waited for twice as long as the others wait for the join",
        Edit(
            _CONSUMER,
            "now_ms() + self._group.settings.max_poll_interval_ms))",
            "now_ms() + 2 * self._group.settings.max_poll_interval_ms))",
        ),
    ),
    without(
        "H34",
        "A commit asked for in the middle of a join is sent",
        Edit(
            _OPERATIONS,
            "    if m.state in {State.JOINING, State.SYNCING}:\n        return ErrorCode.REBALANCE_IN_PROGRESS\n",
            "",
        ),
    ),
    without(
        "H35",
        "A commit answered that the member is unknown changes nothing about the member",
        Edit(
            _OPERATIONS,
            "        if m.is_current(event.sent) and m.state in {State.STEADY, State.RELEASING}:\n"
            "            fall_out(m, code)\n        elif m.state is State.JOINING:\n",
            "        if m.state is State.JOINING:\n",
        ),
    ),
    without(
        "H36",
        "A commit returns before those asked for earlier were told of",
        Edit(
            _COMMITS,
            "        yield from group.operations.finish_later_ones(deadline - self._driver.time())\n",
            "",
        ),
    ),
    without(
        "H37",
        "An asynchronous commit refused for now is sent again, and overtakes later ones",
        Edit(
            _OPERATIONS, "        if isinstance(operation, PendingCommit) and operation.once:\n", "        if False:\n"
        ),
    ),
    without(
        "H38",
        "A negative offset is sent like any other",
        Edit(
            "muster/core/completions.py",
            ': an offset", at.offset, 0, MOST_64)',
            ': an offset", at.offset, -MOST_64, MOST_64)',
        ),
    ),
    without(
        "H39",
        "A commit without a generation is taken whether or not the group has members",
        Edit(
            "coordinator/groups/classic/guards.py",
            "        return _NONE if request.generation_id < 0 else ErrorCode.UNKNOWN_MEMBER_ID\n",
            "        return _NONE if request.generation_id < 0 else ErrorCode.UNKNOWN_MEMBER_ID\n"
            "    if request.generation_id < 0:\n        return _NONE\n",
        ),
    ),
)
