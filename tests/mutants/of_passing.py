"""Bugs of long answers that pass by a node in front of a broker."""

from tests.mutants.mutant import Edit, Mutant, Test

_SESSION = "coordinator/gateway/session/session.py"
_PROXIED = "coordinator/gateway/io/proxied_connection.py"
_SPLICE = "coordinator/gateway/io/splice.py"

MUTANTS = (
    Mutant(
        "our-answers-pass-to-clients",
        "What the broker answers to the node's own question passes by to the client",
        (Edit(_SESSION, "is_clients and self._reply_left", "self._reply_left"),),
        Test(
            "tests/upstream/session/test_session.py"
            "::test_what_is_not_worth_it_or_not_the_clients_does_not_pass_by_itself"
        ),
    ),
    Mutant(
        "what-passes-is-not-heard",
        "A broker whose long answer passes by slowly is taken for one that says nothing",
        (Edit(_SESSION, "        self.upstream_bytes += count\n", ""),),
        Test("tests/upstream/test_node.py::test_an_answer_that_passes_by_slowly_is_waited_for"),
    ),
    Mutant(
        "passes-overtake",
        "What passes by itself leaves before what the client was given first",
        (
            Edit(
                _PROXIED,
                "            if not self._client.reads_slowly:\n                asyncio.",
                "            if True:\n                asyncio.",
            ),
        ),
        Test("tests/edges/test_splice.py::test_what_passes_waits_until_the_client_has_what_it_was_given_before"),
    ),
    Mutant(
        "slow-clients-are-silent-brokers",
        "A client that takes nothing for long is closed as if its broker said nothing",
        (
            Edit(
                _PROXIED,
                "        if self._client.reads_slowly or "
                "(self._transfer is not None and self._transfer.waits_for_target):\n"
                "            return\n",
                "",
            ),
        ),
        Test(
            "tests/edges/test_long_answers.py::test_a_client_that_takes_nothing_is_not_taken_for_a_broker_that_says_nothing"
        ),
    ),
    Mutant(
        "pipes-with-leftovers",
        "A pipe goes to the next pass with somebody else's bytes in it",
        (
            Edit(
                _SPLICE,
                "self._pipes.release(self._pipe, is_empty=not self._piped)",
                "self._pipes.release(self._pipe, is_empty=True)",
            ),
        ),
        Test("tests/edges/test_splice.py::test_a_client_that_goes_ends_it_and_what_was_on_its_way_is_torn"),
    ),
    Mutant(
        "lost-and-sent-after-all",
        "A request that its client was told is lost reaches the broker when there is a connection at last",
        (
            Edit(
                _PROXIED,
                "        self._pending, self._pending_bytes = [], 0\n        self._task.cancel()\n",
                "",
            ),
        ),
        Test(
            "tests/edges/test_upstream_connection.py"
            "::test_what_was_said_to_be_lost_before_there_was_a_connection_is_never_sent[asyncio]"
        ),
    ),
    Mutant(
        "retired-too-soon",
        "A link that is retired closes before those have asked who were handed a place",
        (
            Edit(
                "coordinator/gateway/io/broker_client.py",
                "if self._is_retired and self._free_slots == MAX_IN_FLIGHT:",
                "if self._is_retired and not self._in_flight and not self._slot_waiters:",
            ),
            Edit(
                "coordinator/gateway/io/broker_client.py",
                "                    self._resolve(answer)\n",
                "                    self._resolve(answer)\n                self._close_if_idle()\n",
            ),
        ),
        Test(
            "tests/edges/test_upstream_edge.py"
            "::test_a_link_that_is_retired_waits_for_who_was_handed_a_place_and_has_not_asked_yet"
        ),
    ),
    Mutant(
        "behind-what-takes-long",
        "Everybody waits behind a topic that the cluster takes long to make",
        (
            Edit(
                "coordinator/gateway/io/supervisor.py",
                "clients = self._forwarding_clients if isinstance(message, FORWARDED_APIS) else self._clients",
                "clients = self._clients",
            ),
        ),
        Test("tests/edges/test_upstream_edge.py::test_nobody_waits_behind_a_topic_that_the_cluster_takes_long_to_make"),
    ),
)
