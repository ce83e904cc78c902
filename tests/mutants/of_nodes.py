"""Bugs of several nodes over one log, and of a producer's transactions at them."""

from tests.mutants.mutant import Edit, Mutant, Test

_TRANSACTIONS = "muster/core/producing/transactions.py"
_MOVES = "coordinator/cluster_node/moves.py"
_COUNTS = Test(
    "tests/client/producing/test_transactions.py::test_what_was_committed_counts_once_and_in_order_and_nothing_else_does"
)
_LOOKUPS = "tests/cluster_node/test_lookups.py::"
_PLACEMENT = "coordinator/cluster_node/placement.py"
_TOLD = "tests/cluster_node/test_moves.py::"
_SETTINGS = "tests/cluster_node/test_settings.py::"

MUTANTS = (
    Mutant(
        "lookup-names-a-node-that-ended",
        "While a killed node is still a member of the nodes' group, lookups name it, and clients find nobody there",
        (Edit(_PLACEMENT, "                self._settles_by_ms[shard] = until_ms\n", "                pass\n"),),
        Test(f"{_LOOKUPS}test_a_lookup_waits_for_the_session_of_a_node_that_has_ended_and_for_its_successor"),
    ),
    Mutant(
        "any-member-that-joins-ends-the-wait",
        "Lookups of a killed node's groups name it as soon as any node joins or leaves",
        (Edit(_PLACEMENT, " != NOBODY and not self._has_ended(owner, now_ms):\n", " != NOBODY:\n"),),
        Test(f"{_LOOKUPS}test_a_lookup_waits_for_the_session_of_a_node_that_has_ended_and_for_its_successor"),
    ),
    Mutant(
        "record-before-its-partition",
        "A producer sends records of a transaction to partitions that were not added to it",
        (Edit(_TRANSACTIONS, "        if one in self._added:\n", "        if True:\n"),),
        _COUNTS,
    ),
    Mutant(
        "same-epoch-after-a-record-was-given-up",
        "A producer keeps its epoch, with other sequences, after a transaction whose records it gave up",
        (
            Edit(
                _TRANSACTIONS,
                "            )\n            self._needs_epoch = True\n",
                "            )\n            self._needs_epoch = False\n",
            ),
        ),
        Test(
            "tests/client/producing/test_transactions.py::"
            "test_a_record_that_is_given_up_is_to_be_aborted_and_the_epoch_is_raised"
        ),
    ),
    Mutant(
        "abort-after-an-unanswered-commit",
        "A transaction whose commit was not answered may be aborted, and its records count as dropped",
        (
            Edit(
                _TRANSACTIONS,
                "        if self._verdict is not None and self._verdict is not commit:\n",
                "        if False:\n",
            ),
        ),
        Test(
            "tests/client/producing/test_transactions.py::"
            "test_a_commit_without_an_answer_is_asked_again_and_may_not_become_an_abort"
        ),
    ),
    Mutant(
        "hand-over-of-an-earlier-claim",
        "A killed node is reported to have handed its shard over, since it did so once before",
        (
            Edit(
                _MOVES,
                "        if let_go is not None and let_go.tag == owned.before_tag:\n",
                "        if let_go is not None:\n",
            ),
        ),
        Test(f"{_TOLD}test_what_was_handed_over_before_the_last_claim_is_of_no_account"),
    ),
    Mutant(
        "audit-of-every-node",
        "An act on a group is audited by each node that reads its note",
        (
            Edit(
                "coordinator/handlers/list_audit.py",
                "            if not one.group_id or core.placement.is_mine(core.placement.shard_of(one.group_id)):\n",
                "            if True:\n",
            ),
        ),
        Test(f"{_TOLD}test_an_act_is_audited_by_the_node_that_has_the_group_alone"),
    ),
    Mutant(
        "tombstone-of-what-only-a-later-version-knows",
        "An owner drops records of kinds that only a later version knows",
        (
            Edit(
                "coordinator/cluster_node/repair.py",
                "        if gone is None and not is_pending_key(key):\n",
                "        if False:\n",
            ),
        ),
        Test(
            "tests/cluster_node/test_versions.py::"
            "test_a_stale_record_of_a_later_kind_is_left_to_who_knows_it_and_a_pending_one_ends"
        ),
    ),
    Mutant(
        "cut-off-node-keeps-its-clients",
        "A node that is cut off from the cluster lets its clients wait for as long as that lasts",
        (
            Edit(
                "coordinator/cluster_log/cluster_shard.py",
                "        if self.claim is not None and self._lease.is_unanswered(now.boot_ms):\n",
                "        if False:\n",
            ),
        ),
        Test(
            "tests/cluster_node/test_service.py::"
            "test_a_node_without_the_nodes_coordinator_for_three_sessions_serves_nobody_and_goes_on_when_it_is_back"
        ),
    ),
    Mutant(
        "let-go-within-a-session",
        "Nodes redirect all clients while another broker becomes the coordinator of their group",
        (
            Edit(
                "coordinator/cluster_log/lease.py",
                "        self._unanswered_ms = settings.unheard_sessions * settings.session_ms\n",
                "        self._unanswered_ms = settings.session_ms\n",
            ),
        ),
        Test(
            "tests/cluster_node/test_service.py::"
            "test_a_node_without_the_nodes_coordinator_for_three_sessions_serves_nobody_and_goes_on_when_it_is_back"
        ),
    ),
    Mutant(
        "settings-of-a-lost-shard-stay",
        "A node keeps settings of a group in force that never came to the log of its shard",
        (Edit("coordinator/runtime/shard.py", "        self.own_settings.drop()\n", ""),),
        Test(f"{_SETTINGS}test_a_change_under_way_when_the_shard_is_lost_is_refused_and_not_in_force"),
    ),
    Mutant(
        "settings-answered-before-they-are-written",
        "A change of a group's settings is answered before the log of its shard has it",
        (
            Edit(
                "coordinator/handlers/describe_configs.py",
                "            if has_settings_with_groups(shard) and not admit_to_shard(shard):\n",
                "            if False:\n",
            ),
        ),
        Test(f"{_SETTINGS}test_a_change_is_answered_when_the_shard_of_each_group_has_it"),
    ),
)
