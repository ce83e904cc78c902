"""Streams, and the registry they stand on: H71 to H99."""

from tests.mutants.mutant import Edit, Mutant, Test, without

_ASSIGNMENT = "muster/streams/assignment.py"
_CONNECTOR = "muster/streams/connector.py"
_HOLDINGS = "muster/streams/holdings.py"
_LETTING_GO = "muster/streams/revoke.py"
_OWNING = "coordinator/groups/classic/owning.py"
_QUEUE = "muster/streams/queue.py"
_STEPS = "muster/streams/steps.py"
_STREAM = "muster/streams/stream.py"
_TAKING_ON = "muster/streams/start.py"

_CROWDS = Test(
    "tests/client/streams/test_h_crowds.py::test_whatever_goes_wrong_there_is_one_owner_and_nothing_is_skipped"
)

MUTANTS = (
    without(
        "H71",
        "Where a thread's share begins, nobody counts that those before it have one more",
        Edit(_ASSIGNMENT, "begin = quota * i + min(i, more)", "begin = quota * i"),
    ),
    without(
        "H72",
        "Threads are sorted as text, the eleventh before the third",
        Edit(
            _ASSIGNMENT, "in range(one.topics.get(topic, 0))]", "in sorted(range(one.topics.get(topic, 0)), key=str)]"
        ),
    ),
    without(
        "H73",
        "Threads beyond the partitions are given some that are not there",
        Edit(
            _ASSIGNMENT, "range(begin, begin + quota + (i < more))", "range(begin, begin + max(quota + (i < more), 1))"
        ),
    ),
    without(
        "H74",
        "A connector makes streams as often as it is asked to",
        Edit(
            _CONNECTOR,
            "        if self._parts is not None:\n            raise StreamsExist(",
            "        if False:\n            raise StreamsExist(",
        ),
    ),
    without(
        "H75",
        "The newest chunk of a queue comes first",
        Edit(_QUEUE, "            self._chunks.append(chunk)\n", "            self._chunks.appendleft(chunk)\n"),
    ),
    without(
        "H76",
        "A stream that may wait does not",
        Edit(_STREAM, "deadline_ms = now_ms() + self._timeout_ms if", "deadline_ms = now_ms() if"),
    ),
    without(
        "H77",
        "A queue is never full",
        Edit(_QUEUE, "        return len(self._chunks) >= self._most\n", "        return False\n"),
    ),
    without(
        "H78",
        "A rebalance does not wait for messages in hand",
        Edit(
            _LETTING_GO,
            "        if self._settings.auto_commit_enable and not self._is_lost and self._holdings.has_in_hand:\n",
            "        if False:\n",
        ),
    ),
    without(
        "H79",
        "What is queued is cleared while the fetchers still run",
        Edit(
            _LETTING_GO,
            "        self._holdings.stop()\n        self._holdings.clear()\n",
            "        self._holdings.clear()\n        self._holdings.stop()\n",
        ),
    ),
    without(
        "H80",
        "Fetches do not say by which grant",
        Edit("muster/core/fetching/fetcher.py", "self.grants.epochs.get(one, -1)", "-1"),
    ),
    without(
        "H81",
        "What another owns is claimed again without a pause",
        Edit(_TAKING_ON, "self._settings.rebalance_backoff_ms)", "0)"),
    ),
    without(
        "H82",
        "Of a claim that is refused, what is free is granted",
        Edit(
            _OWNING,
            "    if refused:\n        out.reply(",
            "    if refused:\n"
            "        for key, item in items.items():\n"
            "            if key not in refused and owners.get(key) is None:\n"
            "                who = Owner(member.member_id, item.thread, group.generation_id, 0, 0)\n"
            "                out.records.append(owners.granted(group.group_id, key, who))\n"
            "        out.reply(",
        ),
    ),
    without(
        "H83",
        "What is claimed once more is a new grant",
        Edit(
            _OWNING,
            "        if held is None or held.owner is None or held.owner.thread != item.thread:\n",
            "        if True:\n",
        ),
    ),
    without(
        "H84",
        "A release ends whatever grant there is",
        Edit(
            _OWNING,
            "if held_now is None or not owners.is_held_by(key, request.member_id, item.epoch):",
            "if held_now is None:",
        ),
    ),
    without(
        "H85",
        "Who claims need not be assigned it",
        Edit(
            _OWNING,
            "    if item.partition < 0 or assigned.get(item.topic, {}).get(item.partition) != item.thread:\n",
            "    if item.partition < 0:\n",
        ),
    ),
    without(
        "H86",
        "The group is asked once, however often it may be",
        Edit(_TAKING_ON, "if self._cycles < self._settings.rebalance_max_retries:", "if self._cycles < 1:"),
    ),
    without(
        "H87",
        "After a rebalance that failed the next trigger is waited for, for ever",
        Edit(
            "muster/streams/rebalance.py",
            "None if self._is_dead else _REST * self._settings.rebalance_backoff_ms",
            "None",
        ),
    ),
    without(
        "H88",
        "A lease that is over keeps nothing back",
        Edit(
            _QUEUE,
            "        return from_ms is not None and now_ms - from_ms < self._session_timeout_ms\n",
            "        return from_ms is not None\n",
        ),
    ),
    without(
        "H89",
        "A message counts as consumed before anybody has done with it",
        Edit(_QUEUE, "        if self._consumed_on_return:\n", "        if True:\n"),
    ),
    without(
        "H90",
        "What the thread that shuts down has in hand does not count",
        Edit(_STREAM, "        if self._thread == threading.get_ident():\n", "        if False:\n"),
    ),
    without(
        "H91",
        "A connector that runs sees no trigger",
        Edit(
            _STEPS,
            "        RebalancePhase.RUNNING,\n        RebalancePhase.JOINING,\n",
            "        RebalancePhase.JOINING,\n",
        ),
    ),
    without(
        "H92",
        "Topics that match a pattern are looked for once",
        Edit("membership/subscription.py", "    m.arm(Timer.TOPICS, m.settings.metadata_max_age_ms)\n", ""),
        Edit("membership/core.py", "and _may_ask_metadata(m, Timer.TOPICS)", "and m.looked_at_ms is None"),
    ),
    without(
        "H93",
        "Who shuts down does not commit",
        Edit(
            _LETTING_GO,
            "if self._settings.auto_commit_enable and not self._is_lost else {}",
            "if self._settings.auto_commit_enable and not self._is_lost and not self._is_closing else {}",
        ),
    ),
    without(
        "H94",
        "A listener hears of its first rebalance alone",
        Edit(
            _TAKING_ON,
            "        if self._has_listener:\n",
            "        if self._has_listener and self._is_starting:\n",
        ),
    ),
    without(
        "H95",
        "Members of two protocol types sit in one group",
        Edit(
            "coordinator/groups/classic/guards.py",
            "    if protocol_type != group.protocol_type or not group.supports(protocols):\n",
            "    if False:\n",
        ),
    ),
    without(
        "H96",
        "A stream begins one message behind what was committed",
        Edit(_HOLDINGS, "grants[one].committed)", "grants[one].committed and grants[one].committed + 1)"),
    ),
    without(
        "H97",
        "A stream begins where offsets were read before the claim",
        Edit(
            _TAKING_ON,
            '            self._claim()\n        else:\n            self._join_again(f"the comm',
            "            self._early = done.offsets\n            self._claim()\n        else:\n"
            '            self._join_again(f"the comm',
        ),
        Edit(
            _TAKING_ON,
            "self._holdings.publish(self._kind.threads, done.grants, ",
            "early = {one: type(grant)(grant.epoch, self._early[one]) for one, grant in done.grants.items()}\n"
            "            self._holdings.publish(self._kind.threads, early, ",
        ),
    ),
    without(
        "H98",
        "Who joins again keeps what it did not release",
        Edit(
            "coordinator/handlers/join_group.py",
            "        shard.process(group, OwnershipEnded(group.group_id, message.member_id), moment)\n",
            "        pass\n",
        ),
    ),
    without(
        "H99",
        "Who is thrown out owns nothing any more, though it may still hand out",
        Edit(_OWNING, "    if knows or member.deadline_ms <= out.moment.monotonic_ms:\n", "    if True:\n"),
    ),
    Mutant(
        "streams-know-no-lease",
        "A connector that stood still hands out what others were granted meanwhile",
        (
            Edit(
                _QUEUE,
                "        return from_ms is not None and now_ms - from_ms < self._session_timeout_ms\n",
                "        return True\n",
            ),
        ),
        _CROWDS,
    ),
    Mutant(
        "streams-clear-nothing",
        "What is queued when a rebalance begins is handed out all the same",
        (
            Edit(
                _HOLDINGS,
                "        self._gate.epoch += 1\n        for queue in self._all():\n            queue.clear()\n",
                "        return\n",
            ),
        ),
        _CROWDS,
    ),
    Mutant(
        "registry-gives-what-is-owned",
        "A claim takes from another member what that still owns",
        (Edit(_OWNING, "    return ErrorCode.NONE if is_free else ErrorCode.OWNED\n", "    return ErrorCode.NONE\n"),),
        _CROWDS,
    ),
    Mutant(
        "streams-let-go-twice",
        "Who shuts down in the moment a rebalance begins stops, commits and releases twice",
        (
            Edit(
                _LETTING_GO,
                "        if self._is_closing and self.phase is not RebalancePhase.LEAVING:\n",
                "        if False:\n",
            ),
        ),
        _CROWDS,
    ),
    Mutant(
        "streams-wait-for-topics-that-are-gone",
        "The commit before a release is tried again for a topic that was deleted, while the others wait",
        (
            Edit(
                "muster/streams/commits.py",
                "may_help and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and",
                "may_help and",
            ),
        ),
        Test("tests/client/streams/test_h_streams.py::test_streams_of_a_topic_that_is_deleted_wait"),
    ),
    Mutant(
        "streams-leave-without-letting-go",
        "Who shuts down in the middle of a rebalance never says that it has let go, and waits until its time is over",
        (Edit(_LETTING_GO, "        if is_let_go:\n", "        if False:\n"),),
        Test(
            "tests/client/streams/test_shutdown.py"
            "::test_shutting_down_in_the_middle_leaves_the_group_and_nothing_behind"
        ),
    ),
)
