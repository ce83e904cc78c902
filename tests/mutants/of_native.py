"""Bugs of our own clients beside brokers, and of what they are told there."""

from tests.mutants.mutant import Edit, Mutant, Test

_NATIVE = "coordinator/gateway/native.py"
_TOPICS = "coordinator/gateway/cluster_topics.py"
_TOLD = "tests/upstream/test_native.py"

MUTANTS = (
    Mutant(
        "a-broker-is-asked-for-the-coordinator",
        "Brokers beside musterd count among the nodes that are asked whose group it is",
        (Edit("membership/nodes.py", "{one for one in found if not one.speaks}", "set(found)"),),
        Test("tests/client/test_h_coordinator.py::test_brokers_beside_musterd_are_asked_nothing_about_groups"),
    ),
    Mutant(
        "natively-to-a-broker",
        "What was said of a node is overheard: it is spoken to as the bootstrap is",
        (Edit("muster/net/dialects/__init__.py", "node.speaks == Dialect.KAFKA.value", "node.speaks == str(None)"),),
        Test("tests/client/fetching/test_leaders.py::test_a_leader_beside_musterd_is_one_that_speaks_kafkas_protocol"),
    ),
    Mutant(
        "ids-from-musterd",
        "A producer beside brokers asks musterd for its id, which no broker has given",
        (
            Edit(
                "muster/core/producing/topics.py",
                "        self._brokers = sorted(one for one in nodes.values() if one.speaks)\n",
                "",
            ),
        ),
        Test("tests/client/producing/test_batches.py::test_beside_brokers_it_is_they_who_give_ids_one_after_the_other"),
    ),
    Mutant(
        "impatient-for-a-first-leader",
        "A producer gives up a topic that has no leader yet after a second",
        (Edit("muster/core/producing/topics.py", "(code != _UNKNOWN or now_ms", "(code == 1_000 or now_ms"),),
        Test("tests/client/producing/test_batches.py::test_a_topic_that_has_no_leader_yet_is_waited_for"),
    ),
    Mutant(
        "leaders-from-memory",
        "Native clients are told who led when the topic was first heard of",
        (Edit(_TOPICS, "self._asked.get(key, -_NEW_FOR_MS) >= _NEW_FOR_MS", "self._asked.get(key, -1) < 0"),),
        Test(f"{_TOLD}::test_what_became_of_a_topic_is_heard_at_once_since_the_cluster_is_asked_each_time"),
    ),
    Mutant(
        "each-client-asks-the-cluster",
        "Every native client's question is one to the cluster, be there ten thousand of them",
        (Edit(_TOPICS, "_NEW_FOR_MS = 100\n", "_NEW_FOR_MS = 0\n"),),
        Test(f"{_TOLD}::test_many_who_ask_at_once_make_one_question"),
    ),
    Mutant(
        "away-is-not-there",
        "While the cluster cannot be asked, clients hear that a topic is not there, and give up",
        (Edit(_NATIVE, "    if topics.brokers.is_reachable and topics", "    if topics"),),
        Test(
            f"{_TOLD}::test_while_the_cluster_is_away_what_is_known_is_told_and_nobody_hears_that_a_topic_is_not_there"
        ),
    ),
    Mutant(
        "no-broker-no-metadata",
        "While no broker can be reached, who asks for metadata is hung up on, and no group shares its partitions out",
        (Edit("coordinator/gateway/session/session.py", " or self._router.serves_offline(key)", ""),),
        Test("tests/upstream/test_outage.py::test_a_group_forms_and_goes_on_though_every_broker_is_gone"),
    ),
    Mutant(
        "one-outage-a-front",
        "Fronts do not hear that no broker can be reached",
        (Edit("coordinator/gateway/brokers.py", "reachability=self._reachability,", "reachability=None,"),),
        Test(
            "tests/upstream/test_outage.py"
            "::test_a_connection_that_has_outlived_its_brokers_versions_is_answered_in_a_later_outage"
        ),
    ),
    Mutant(
        "tried-is-made",
        "A topic that was to be checked alone counts as made",
        (Edit(_NATIVE, " and not message.validate_only:", ":"),),
        Test(
            f"{_TOLD}::test_a_topic_that_was_just_made_is_not_said_to_be_missing_whichever_broker_has_not_heard_of_it"
        ),
    ),
    Mutant(
        "silent-about-a-broker",
        "A client that cannot reach a broker beside musterd says nothing, and no records come",
        (Edit("muster/net/refusals.py", "is_news = bool(address.speaks) and", "is_news = False and"),),
        Test(
            "tests/client/test_refusals.py"
            "::test_a_broker_beside_musterd_that_cannot_be_reached_is_news_once_until_it_answers"
        ),
    ),
    Mutant(
        "the-older-commit-remains",
        "A commit that the cluster need not be asked for is stored before an older one that it is asked for",
        (
            Edit(
                "coordinator/gateway/gateway.py",
                "        elif not self._commit_order.enqueue_behind(ref, message):\n",
                "        else:\n",
            ),
        ),
        Test(
            "tests/upstream/test_commit_order.py::test_a_newer_commit_does_not_overtake_one_that_waits_for_the_cluster"
        ),
    ),
)
