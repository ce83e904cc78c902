"""Bugs of the ownership registry."""

from tests.mutants.mutant import Edit, Mutant, Test

_OWNING = "coordinator/groups/classic/owning.py"
_TESTS = "tests/node/test_ownership.py"

MUTANTS = (
    Mutant(
        "claims-beyond-the-assignment",
        "A member is granted partitions that are assigned to another",
        (
            Edit(
                _OWNING,
                "    if item.partition < 0 or assigned.get(item.topic, {}).get(item.partition) != item.thread:\n",
                "    if item.partition < 0:\n",
            ),
        ),
        Test(f"{_TESTS}::test_what_is_assigned_to_another_or_to_another_thread_is_not_granted"),
    ),
    Mutant(
        "two-owners",
        "A claim takes a partition from a member whose lease still runs",
        (
            Edit(
                _OWNING,
                "    return ErrorCode.NONE if is_free else ErrorCode.OWNED\n",
                "    return ErrorCode.NONE\n",
            ),
        ),
        Test(f"{_TESTS}::test_who_misses_the_rebalance_owns_until_its_lease_is_over"),
    ),
    Mutant(
        "a-claim-by-halves",
        "Of a claim that is refused in part, the other part is granted",
        (
            Edit(
                _OWNING,
                "    if refused:\n",
                "    items = {key: item for key, item in items.items() if key not in refused}\n    if not items:\n",
            ),
            Edit(_OWNING, "zip(items.items(), event.committed, strict=True)", "zip(items.items(), event.committed)"),
        ),
        Test(f"{_TESTS}::test_one_item_refused_grants_none"),
    ),
    Mutant(
        "epochs-begin-again",
        "A partition that was released is granted with the epoch it had before",
        (
            Edit(
                "coordinator/groups/ownership.py",
                "        return Ownership(group_id, *key, self.epoch(key) + 1, owner)\n",
                "        return Ownership(group_id, *key, max(self.epoch(key), 1), owner)\n",
            ),
        ),
        Test(f"{_TESTS}::test_a_release_needs_the_grants_own_epoch"),
    ),
    Mutant(
        "any-release-counts",
        "A release of an older grant ends the present one",
        (
            Edit(
                _OWNING,
                "        if held_now is None or not owners.is_held_by(key, request.member_id, item.epoch):\n",
                "        if held_now is None:\n",
            ),
        ),
        Test(f"{_TESTS}::test_a_release_needs_the_grants_own_epoch"),
    ),
    Mutant(
        "lateness-ends-a-lease",
        "A member that is removed for being late loses its partitions at once, though it may still be reading them",
        (
            Edit(
                _OWNING,
                "    if knows or member.deadline_ms <= out.moment.monotonic_ms:\n",
                "    if True:\n",
            ),
        ),
        Test(f"{_TESTS}::test_who_misses_the_rebalance_owns_until_its_lease_is_over"),
    ),
    Mutant(
        "joining-keeps-grants",
        "A member that joins again keeps grants that a lost release should have ended",
        (
            Edit(
                "coordinator/handlers/join_group.py",
                "        shard.process(group, OwnershipEnded(group.group_id, message.member_id), moment)\n",
                "        pass\n",
            ),
        ),
        Test(f"{_TESTS}::test_joining_again_ends_what_a_lost_release_did_not"),
    ),
    Mutant(
        "grants-for-ever-after-a-crash",
        "After a crash the lease of an owner that was no longer a member is not awaited",
        (
            Edit(
                "coordinator/groups/classic/applying.py",
                "    resume_leases(group, out)\n    if group.members and",
                "    if group.members and",
            ),
        ),
        Test(f"{_TESTS}::test_an_owner_that_is_no_member_gets_a_full_lease_after_a_crash"),
    ),
    Mutant(
        "an-end-that-is-forgotten",
        "The end of a grant that the full disk refused is never retried",
        (
            Edit(
                "coordinator/groups/classic/applying.py",
                "        retry_end_of_ownership(group, failed, out)\n",
                "        pass\n",
            ),
        ),
        Test(f"{_TESTS}::test_what_the_log_has_no_room_for_ends_when_it_has"),
    ),
    Mutant(
        "commits-without-the-grant",
        "A former owner's commit is stored over the present one's",
        (
            Edit(
                "coordinator/groups/classic/offsets.py",
                "            if owners is not None and _is_owned_by_another(owners, request, name, part):\n",
                "            if owners is not None and part.owner_epoch > 1 << 40:\n",
            ),
        ),
        Test(f"{_TESTS}::test_commits_need_the_grant_where_there_is_one"),
    ),
    Mutant(
        "a-waiting-fetch-that-is-not-asked-again",
        "A waiting fetch is answered under a grant that has ended meanwhile",
        (
            Edit(
                "coordinator/handlers/fetch.py",
                "    lost = lost_grants(core, message)\n",
                "    lost: dict[Key, None] = {}\n",
            ),
        ),
        Test(f"{_TESTS}::test_a_waiting_fetch_learns_that_its_grant_is_gone"),
    ),
    Mutant(
        "a-snapshot-without-grants",
        "The snapshot of a clean stop lacks the owners of partitions",
        (
            Edit(
                "coordinator/runtime/snapshot.py",
                "    yield from map(_encode, _registries(shard))\n",
                "",
            ),
        ),
        Test(f"{_TESTS}::test_grants_and_epochs_outlive_a_clean_stop"),
    ),
)
