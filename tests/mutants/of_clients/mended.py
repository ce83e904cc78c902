"""Bugs that the consumer had, put back."""

from tests.mutants.mutant import Edit, Mutant, Test

MUTANTS = (
    Mutant(
        "closing-in-a-rebalance-commits-nothing",
        "A member that closes in the middle of a cooperative rebalance does not commit what it read meanwhile",
        (
            Edit(
                "membership/joining.py",
                "        m.lose(still_counts=has_place and is_rebalancing)\n",
                "        m.lose()\n",
            ),
        ),
        Test(
            "tests/client/test_h_endings.py"
            "::test_closing_in_the_middle_of_a_cooperative_rebalance_commits_what_was_read_meanwhile"
        ),
    ),
    Mutant(
        "leaders-never-grow-old",
        "A partition is read from a node that has ceased to lead it for as long as that goes on answering",
        (
            Edit(
                "muster/core/fetching/fetcher.py",
                "age_ms = max(self._settings.metadata_max_age_ms, self._settings.retry_backoff_ms)",
                "age_ms = 10**9",
            ),
        ),
        Test(
            "tests/client/fetching/test_leaders.py"
            "::test_a_leader_that_moved_and_says_nothing_is_noticed_by_the_age_of_what_is_known"
        ),
    ),
    Mutant(
        "an-interrupted-batch-is-kept",
        "A Ctrl-C in the middle of reading a batch leaves it half read in the buffer: the rest of it is skipped",
        (
            Edit(
                "muster/core/fetching/buffer.py",
                "            self._completed.remove(completed)\n            raise\n",
                "            raise\n",
            ),
        ),
        Test("tests/client/fetching/test_interruptions.py::test_a_batch_whose_reading_was_interrupted_is_read_again"),
    ),
    Mutant(
        "a-lost-commit-is-refused",
        "A commit whose answer was lost is said to be refused, though it may be stored",
        (
            Edit(
                "muster/core/completions.py",
                "_UNHEARD = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})",
                "_UNHEARD = frozenset({ErrorCode.REQUEST_TIMED_OUT})",
            ),
        ),
        Test("tests/client/test_completions.py::test_a_commit_says_what_was_stored_or_why_not"),
    ),
)
