"""Bugs of a node beside brokers: each breaks a world of them."""

from tests.mutants.mutant import Edit, Mutant, Test, Worlds

_ADOPTION = "coordinator/gateway/migration_lookup.py"
_NODE = "coordinator/gateway/gateway.py"
_TOPICS = "coordinator/gateway/cluster_topics.py"
_SESSION = "coordinator/gateway/session/session.py"
_GONE = "tests/upstream/test_gone.py"


def _worlds(first: int, count: int) -> Worlds:
    return Worlds(count, first, is_beside=True)


MUTANTS = (
    Mutant(
        "answers-overtake-the-brokers",
        "An answer about a group leaves before what the broker owes for the requests before it",
        (
            Edit(
                _SESSION,
                'is answered."""\n        if self._in_flight and not self._awaits_only_queries:\n',
                'is answered."""\n        if self._in_flight and key == API_VERSIONS:\n',
            ),
        ),
        _worlds(0, 3),
    ),
    Mutant(
        "an-adoption-that-is-forgotten",
        "A group that comes over begins anew, whatever it had at the brokers",
        (
            Edit(
                _ADOPTION,
                "    return ClusterOffsets(reply, truncated) if topics else NoOffsets()\n",
                "    return NoOffsets()\n",
            ),
        ),
        _worlds(1, 4),
    ),
    Mutant(
        "members-elsewhere",
        "A group comes over while it has members at the brokers",
        (
            Edit(_ADOPTION, "    if group.members or group.group_state not in _EMPTY_STATES:\n", "    if False:\n"),
            Edit(_ADOPTION, "lookup.group_id and group.group_state not in _EMPTY_STATES:\n", "'':\n"),
        ),
        _worlds(14, 2),
    ),
    Mutant(
        "ids-of-old",
        "A topic that was deleted and made anew keeps its former id",
        (
            Edit(
                _TOPICS,
                "            self._names[topic.topic_id] = name\n",
                "            if before is None:\n                self._names[topic.topic_id] = name\n",
            ),
        ),
        _worlds(4, 3),
    ),
    Mutant(
        "commits-without-a-name",
        "While nobody can be asked whose id it is, a commit for a topic's id is stored without a name and acknowledged",
        (Edit(_TOPICS, "is_answered or not name else INT_MAX", "is_answered else INT_MAX"),),
        _worlds(0, 3),
    ),
    Mutant(
        "unheard-of-while-away",
        "While the brokers are away, a commit for a topic that the node has not heard of is refused",
        (Edit(_TOPICS, "is_answered or not name else INT_MAX", "True else INT_MAX"),),
        _worlds(0, 3),
    ),
    Mutant(
        "a-loss-that-nobody-hears-of",
        "The broker's side of a connection breaks, and the client waits on",
        (
            Edit(
                _SESSION,
                "        if not self._awaits_only_queries or self._uses_sasl or",
                "        if self._uses_sasl or",
            ),
        ),
        _worlds(0, 3),
    ),
    Mutant(
        "asking-for-ever",
        "A request that waits for the brokers' word waits as long as that takes",
        (
            Edit(
                "coordinator/gateway/upstream_requests.py",
                "moment.monotonic_ms + self._timeout_ms,",
                "moment.monotonic_ms + 100 * self._timeout_ms,",
            ),
        ),
        _worlds(2, 3),
    ),
    Mutant(
        "silence-for-ever",
        "A broker that never answers keeps its client waiting",
        (
            Edit(
                "coordinator/gateway/broker_timeout.py", "elif silent_ms + elapsed_ms < self._timeout_ms:", "elif True:"
            ),
        ),
        _worlds(14, 2),
    ),
    Mutant(
        "reading-without-end",
        "Requests that wait behind one of a group are read on, however many there are",
        (
            Edit(
                _SESSION,
                "        return (self._is_serving or self._is_blocked) and self._received.size > MAX_WAITING_BYTES",
                "        return False",
            ),
        ),
        _worlds(18, 3),
    ),
    Mutant(
        "the-brokers-own-addresses",
        "Clients are told where the brokers really are",
        (
            Edit(
                "coordinator/gateway/session/replies.py",
                "            return replace_brokers(frame, self._version, addresses), decoded\n",
                "            return frame, decoded\n",
            ),
        ),
        _worlds(0, 3),
    ),
    Mutant(
        "a-commit-that-waits-for-an-answer",
        "A commit for a topic that the node has not heard of is forgotten when nobody answers",
        (
            Edit(
                _NODE,
                "    self._serve(ref, message, moment)\n\n    def _on_forwarded_reply",
                "    if delayed.single_exchange[1]:\n"
                "                self._serve(ref, message, moment)\n\n    def _on_forwarded_reply",
            ),
        ),
        _worlds(0, 3),
    ),
    Mutant(
        "no-answer-means-there-is-none",
        "A commit for a topic is refused because the brokers did not say in time that it is there",
        (Edit(_TOPICS, "                self.is_unanswered = True\n", "                self.is_unanswered = False\n"),),
        Test(
            "tests/upstream/test_unheard_topics.py"
            "::test_by_name_it_is_believed_when_the_cluster_seems_to_be_there_and_does_not_answer"
        ),
    ),
    Mutant(
        "unheard-is-not-told",
        "What is committed for a topic made anew goes with the old one's, when its client was told without an id",
        (Edit(_TOPICS, "        self._unconfirmed.update(\n", "        set(\n"),),
        Test(f"{_GONE}::test_what_is_committed_once_a_client_was_told_of_the_new_topic_stays_however_it_was_told"),
    ),
    Mutant(
        "too-late-to-forget",
        "What waited for room to be forgotten takes along what was committed meanwhile",
        (Edit("coordinator/gateway/offset_cleanup.py", " if kept.topic_id == topic.topic_id]", "]"),),
        Test(f"{_GONE}::test_what_was_not_forgotten_for_want_of_room_takes_nothing_from_a_topic_made_since"),
    ),
    Mutant(
        "begins-where-another-ended",
        "Who reads a topic made anew begins at the offset that was committed for the old one",
        (Edit(_TOPICS, "return known is None or known.topic_id in (topic_id, NO_TOPIC_ID)", "return True"),),
        Test(f"{_GONE}::test_whoever_reads_a_topic_made_anew_is_told_no_offset_of_the_old_one"),
    ),
    Mutant(
        "any-cluster-is-ours",
        "A node that is sent to another cluster by mistake deletes what was committed for its own",
        (
            Edit(
                "coordinator/gateway/deleted_topics.py",
                "        if self._is_owner:\n",
                "        if self._is_owner or names:\n",
            ),
        ),
        Test(f"{_GONE}::test_a_cluster_that_has_none_of_the_stored_topics_proves_nothing"),
    ),
    Mutant(
        "names-beside-ids",
        "Topics are asked for by name and by id in one question, of which a broker answers half",
        (
            Edit(
                _TOPICS,
                "    return tuple(Metadata(tuple(some)) for some in (named, by_id) if some)",
                "    return (Metadata((*named, *by_id)),) if named or by_id else ()",
            ),
        ),
        Test(
            "tests/upstream/test_node.py::test_names_and_ids_are_asked_for_by_themselves_and_what_is_neither_not_at_all"
        ),
    ),
    Mutant(
        "gone-before-it-is-answered",
        "Who says nothing more on a connection is not told what it asked for",
        (
            Edit(
                "coordinator/node/serving.py",
                "connection.has_ended and connection.session.is_idle and",
                "connection.has_ended and",
            ),
        ),
        Test("tests/node/test_half_closed.py::test_it_closes_when_everything_is_answered_and_not_before"),
    ),
    Mutant(
        "waits-though-muster-knows",
        "Who asked a broker for topics just before all of them went waits for them",
        (Edit(_NODE, "and session.awaits_rewritten_reply:", "and False:"),),
        Test("tests/upstream/test_outage.py::test_who_had_asked_just_before_is_not_left_waiting"),
    ),
    Mutant(
        "passed-and-not-counted",
        "Of an answer that went by the node, it waits for more than there is",
        (Edit(_SESSION, "        self._reply_left -= count\n", "        self._reply_left -= count - 1\n"),),
        Test(
            "tests/upstream/session/test_session.py"
            "::test_a_long_answer_may_pass_by_itself_and_what_waits_for_it_goes_on_when_it_has"
        ),
    ),
)
