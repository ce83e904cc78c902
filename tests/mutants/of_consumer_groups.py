"""Server-driven consumer groups: the rules of docs/spec/consumer-group-protocol.md, each taken out once."""

from tests.mutants.mutant import Edit, Mutant, Test

_CONSUMER = "coordinator/groups/consumer"
_CLASSIC = f"{_CONSUMER}/classic_members"
_APPLYING = f"{_CONSUMER}/applying.py"
_DELAYED = f"{_CONSUMER}/delayed.py"
_DOWNGRADE = f"{_CLASSIC}/downgrade.py"
_GUARDS = f"{_CONSUMER}/guards.py"
_HEARTBEATS = f"{_CONSUMER}/heartbeats.py"
_HANDLER = "coordinator/handlers/consumer_group_heartbeat.py"
_MEMBERS = f"{_CONSUMER}/members.py"
_OFFSETS = f"{_CONSUMER}/offsets.py"
_RECONCILIATION = f"{_CONSUMER}/reconciliation.py"
_REGEXES = f"{_CONSUMER}/regexes.py"
_REMOVAL = f"{_CONSUMER}/removal.py"
_STATE = f"{_CONSUMER}/state.py"
_STAYING = f"{_CLASSIC}/staying.py"
_SUBSCRIPTIONS = f"{_CONSUMER}/subscriptions.py"
_TARGET = f"{_CONSUMER}/target.py"
_UPGRADE = "coordinator/runtime/kinds/conversions.py"
_UPGRADED = "coordinator/runtime/kinds/classic_reading.py"

_JOINING_TESTS = "tests/groups/consumer/test_joining.py"
_RECONCILING_TESTS = "tests/groups/consumer/test_reconciling.py"
_IDLE_TESTS = "tests/node/test_idle_heartbeats.py"
_STATIC_TESTS = "tests/groups/consumer/test_static_members.py"
_OFFSETS_TESTS = "tests/groups/consumer/test_offsets.py"
_REGEX_TESTS = "tests/groups/consumer/test_regexes.py"
_REPLAY_TESTS = "tests/groups/consumer/test_replay.py"
_SLICES_TESTS = "tests/groups/consumer/test_slices.py"
_PARTS_TESTS = "tests/groups/consumer/test_parts.py"
_NODE_TESTS = "tests/node/test_consumer_groups.py"
_CLASSIC_TESTS = "tests/node/test_classic_members.py"
_CONVERSION_TESTS = "tests/node/test_conversions.py"

_WORLDS = Test(
    "tests/simulation/test_consumers.py"
    "::test_no_partition_has_two_owners_and_every_member_converges_when_faults_have_stopped"
)


_SEEN_BY_MEMBERS = {
    "given-before-it-is-free": "two members read one partition",
    "to-be-revoked-counts-as-free": "two members read one partition, of which one takes its time to revoke",
    "silence-is-an-acknowledgement": "two members read one partition, of which one takes its time to revoke",
    "revocation-not-waited-for": "two members read one partition",
    "newcomer-is-not-told-twice": "a member never has what it is assigned, or goes on with what it had",
    "dropped-topic-kept": "a member is given a topic that it does not subscribe to",
    "newer-epochs-accepted": "what no member may say is accepted",
    "old-epoch-with-any-claims": "what no member may say is accepted",
    "epoch-goes-back-with-the-protocol": "also for members that stay",
    "lost-reply-fences": "a member is fenced that has lost one reply",
}
"""Rules that worlds miss too: what they see of them."""


def _rule(name: str, story: str, edit: Edit, check: Test | str) -> Mutant:
    return Mutant(name, story, (edit,), check if isinstance(check, Test) else Test(check))


_RULES = (
    # --- invariants (1.4) and reconciliation (4) ---
    _rule(
        "given-before-it-is-free",
        "A partition is given to its new owner before the old one has acknowledged that it is revoked",
        Edit(
            _RECONCILIATION,
            "        given = [number for number in sorted(wanted) if goal.is_free(topic_id, number)]\n",
            "        given = sorted(wanted)\n",
        ),
        f"{_RECONCILING_TESTS}::test_scenario_24_nothing_is_given_before_it_is_released",
    ),
    _rule(
        "unread-heartbeats-fence",
        "A member is fenced whose heartbeats wait behind a commit that waits for the disk",
        Edit(_REMOVAL, "    if event.is_kept_waiting and", "    if event is None and"),
        f"{_IDLE_TESTS}::test_a_member_whose_heartbeats_wait_behind_its_commit_for_the_disk_is_not_fenced",
    ),
    _rule(
        "refused-heartbeats-fence",
        "A member is fenced whose heartbeats the node has no room for, while the disk stands still",
        Edit(
            _HEARTBEATS,
            "        keep_alive(group, group.members[event.member_id], now_ms)\n",
            "        pass\n",
        ),
        f"{_NODE_TESTS}::test_members_whose_heartbeats_the_node_has_no_room_for_are_not_fenced",
    ),
    _rule(
        "refused-heartbeats-of-any-epoch-count",
        "A heartbeat of a wrong epoch keeps the member alive if the node has no room for it",
        Edit(
            _HEARTBEATS,
            " or is_member(group, event) or is_current_epoch(group, event)",
            " or is_member(group, event)",
        ),
        f"{_NODE_TESTS}::test_members_whose_heartbeats_the_node_has_no_room_for_are_not_fenced",
    ),
    _rule(
        "refused-joins-fence",
        "A classic member is fenced whose JoinGroup the node has no room for, while the disk stands still",
        Edit(
            f"{_CLASSIC}/joining.py",
            "    if (member := group.members.get(member_id)) is not None:\n",
            '    if (member := group.members.get("")) is not None:\n',
        ),
        f"{_CLASSIC_TESTS}::test_a_member_whose_join_the_node_has_no_room_for_is_not_fenced",
    ),
    _rule(
        "joins-without-topics-fence",
        "Beside brokers whose topics are not known yet, a classic member that joins again is fenced",
        Edit(
            "coordinator/gateway/server_driven.py",
            "        extend_refused_join(consumer, message.member_id, moment.monotonic_ms)\n",
            "",
        ),
        "tests/upstream/test_server_driven.py::test_a_classic_member_that_joins_again_before_topics_are_known_stays",
    ),
    _rule(
        "own-metadata-counts-twice",
        "A member that repeats its subscription is refused where the group has no room for a second one",
        Edit(
            _HANDLER,
            '            added += _size(value) - _size(getattr(held, field) or "")\n',
            "            added += _size(value)\n",
        ),
        f"{_NODE_TESTS}::test_limits_of_metadata_count_what_a_request_adds",
    ),
    _rule(
        "own-protocols-count-twice",
        "A classic member that joins again is refused where the group has no room for a second one",
        Edit(
            "coordinator/handlers/join_group.py",
            "    if known is not None:\n        held =",
            "    if False:\n        held =",
        ),
        f"{_CLASSIC_TESTS}::test_limits_of_metadata_count_what_a_join_group_adds",
    ),
    _rule(
        "to-be-revoked-counts-as-free",
        "Partitions that a member has yet to revoke count as free",
        Edit(
            _STATE,
            "        for partitions in (self.assigned, self.pending):\n",
            "        for partitions in (self.assigned,):\n",
        ),
        f"{_RECONCILING_TESTS}::test_scenario_32_a_member_that_revokes_still_holds_what_it_has_to_revoke",
    ),
    _rule(
        "silence-is-an-acknowledgement",
        "A heartbeat without owned partitions acknowledges a revocation",
        Edit(
            _RECONCILIATION,
            "    return owned is not None and not _overlaps(current.pending, owned)\n",
            "    return owned is None or not _overlaps(current.pending, owned)\n",
        ),
        f"{_RECONCILING_TESTS}::test_scenarios_23_and_83_the_timeline_and_its_records",
    ),
    _rule(
        "revocation-not-waited-for",
        "A member's first heartbeat at a new target, if it has no owned partitions, counts as its revocation",
        Edit(
            _RECONCILIATION,
            "    if revoked and (owned is None or _overlaps(revoked, owned)):\n",
            "    if revoked and owned is not None and _overlaps(revoked, owned):\n",
        ),
        f"{_RECONCILING_TESTS}::test_scenarios_23_and_83_the_timeline_and_its_records",
    ),
    _rule(
        "dropped-topic-kept",
        "A topic that a member no longer subscribes to stays with it until the next target",
        Edit(
            _RECONCILIATION,
            "    dropped = {topic_id: epochs for topic_id, epochs in current.assigned.items() "
            "if not goal.is_wanted(topic_id)}\n    if not dropped:\n",
            "    dropped = {topic_id: epochs for topic_id, epochs in current.assigned.items() "
            "if not goal.is_wanted(topic_id)}\n    if len(dropped) < 1_000:\n",
        ),
        f"{_PARTS_TESTS}::test_a_dropped_topic_is_trimmed_whatever_the_target",
    ),
    _rule(
        "newcomer-is-not-told-twice",
        "A full heartbeat is not answered with the assignment that its reply may have lost",
        Edit(_HEARTBEATS, "        or _is_full(event.request)\n", ""),
        f"{_JOINING_TESTS}::test_scenario_10_the_assignment_is_repeated_to_a_full_request_alone",
    ),
    # --- epochs (2.5, 3.1) ---
    _rule(
        "newer-epochs-accepted",
        "A heartbeat may name an epoch that the group has never had",
        Edit(
            _GUARDS,
            "    if request.member_epoch == current.epoch:\n",
            "    if request.member_epoch >= current.epoch:\n",
        ),
        f"{_JOINING_TESTS}::test_scenario_18_wrong_epochs",
    ),
    _rule(
        "lost-reply-fences",
        "A member whose reply was lost is fenced, since it still has the previous epoch",
        Edit(
            _GUARDS,
            "        is_accepted = is_previous and _owns_only(current.assigned, request)\n",
            "        is_accepted = False\n",
        ),
        f"{_JOINING_TESTS}::test_scenario_19_the_epoch_before_is_accepted_if_the_reply_was_lost",
    ),
    _rule(
        "old-epoch-with-any-claims",
        "A member in the previous epoch may claim partitions that it was not assigned",
        Edit(
            _GUARDS,
            "        is_accepted = is_previous and _owns_only(current.assigned, request)\n",
            "        is_accepted = is_previous\n",
        ),
        f"{_JOINING_TESTS}::test_scenario_19_the_epoch_before_is_accepted_if_the_reply_was_lost",
    ),
    _rule(
        "epoch-does-not-survive-leaving",
        "A leaving member does not increase the epoch, and its partitions have no owner",
        Edit(_REMOVAL, "    out.records += epoch_records(group, hash_of(group, after))\n", ""),
        _WORLDS,
    ),
    _rule(
        "epoch-goes-back-with-the-protocol",
        "An upgraded group begins with epoch 1 and not with the generation that it had: epochs go back",
        Edit(
            _UPGRADE,
            "    for last in _records(planned, generation_id, read, held):\n",
            "    for last in _records(planned, 1, read, held):\n",
        ),
        f"{_CONVERSION_TESTS}::test_there_and_back_under_commits",
    ),
    _rule(
        "new-partitions-unnoticed",
        "Partitions that are added to a subscribed topic do not increase the epoch",
        Edit(
            _MEMBERS,
            "        if digest == had or hash_of(group, subscriptions_of(group)) == had:\n",
            "        if digest:\n",
        ),
        f"{_RECONCILING_TESTS}::test_partitions_are_added_to_a_subscribed_topic",
    ),
    _rule(
        "kept-digest-of-other-topics",
        "The digest that is kept of many topics is not computed again when partitions are added",
        Edit(_SUBSCRIPTIONS, "DigestedTopics(group.topics.version, ", "DigestedTopics(0, "),
        f"{_PARTS_TESTS}::test_many_topics_are_digested_once",
    ),
    # --- targets (3.2 to 3.4) ---
    _rule(
        "interval-left-out",
        "A target is computed for every join, however soon after the last",
        Edit(_TARGET, "    return not _wait_ms(group, moment)\n", "    return True\n"),
        f"{_RECONCILING_TESTS}::test_scenario_33_one_computation_an_interval",
    ),
    _rule(
        "clock-set-back-stops-targets",
        "A clock that was set back delays the next target until it shows the former time again",
        Edit(
            _TARGET,
            "last_ms != 0 and last_ms <= moment.wall_ms < last_ms + interval_ms\n",
            "last_ms != 0 and moment.wall_ms < last_ms + interval_ms\n",
        ),
        f"{_RECONCILING_TESTS}::test_a_clock_that_is_set_back_delays_no_computation",
    ),
    _rule(
        "gains-before-losses",
        "Targets in slices are written as they come: a crash in between gives a partition to two members",
        Edit(_TARGET, "    for next_target in (_without_gains, _whole):\n", "    for next_target in (_whole,):\n"),
        f"{_SLICES_TESTS}::test_targets_are_disjoint_after_a_crash_between_two_parts",
    ),
    _rule(
        "target-goes-with-the-instance",
        "The target of a member that changes its instance id while targets are computed goes to the id's next member",
        Edit(
            _APPLYING,
            "        if record.instance_id != member.subscription.instance_id:\n            group.computing = None"
            "  # it finds members by their instances; the next heartbeat begins another\n",
            "",
        ),
        f"{_SLICES_TESTS}::test_a_member_that_changes_its_instance_meanwhile_keeps_its_target_for_itself",
    ),
    _rule(
        "late-joiner-forgotten",
        "A member that joins while a target is computed is in no target until another change",
        Edit(
            _TARGET,
            "    if group.epoch > event.epoch:\n        out.follow_ups.append(TargetBehind(group.group_id))\n",
            "",
        ),
        f"{_SLICES_TESTS}::test_a_member_that_joins_meanwhile_is_in_the_next_target",
    ),
    _rule(
        "votes-not-counted",
        "The first assignor of the configuration is used, whatever members ask for",
        Edit(
            _TARGET,
            "    return max(assignors, key=lambda name: votes[name])\n",
            "    return assignors[0]\n",
        ),
        f"{_PARTS_TESTS}::test_scenario_41_the_assignor_with_most_votes",
    ),
    # --- sessions, fencing, timers (8) ---
    _rule(
        "fenced-member-stays",
        "The end of a member's session is noted, but the member keeps its partitions",
        Edit(
            _REMOVAL,
            '    else:\n        detail = f"no heartbeat for',
            '    elif member.is_classic:\n        detail = f"no heartbeat for',
        ),
        f"{_NODE_TESTS}::test_scenario_22_a_silent_member_is_fenced",
    ),
    _rule(
        "idle-heartbeats-keep-nobody",
        "A heartbeat without changes does not restart the session",
        Edit(
            _HEARTBEATS,
            "    member.deadline_ms = deadline_ms\n",
            "",
        ),
        _WORLDS,
    ),
    _rule(
        "unrevoked-timer-left-out",
        "A member that never revokes is waited for as long as it sends heartbeats",
        Edit(
            _DELAYED,
            "    if current.state == ReconciliationState.UNREVOKED_PARTITIONS:\n        out.watch(",
            "    if current.state == ReconciliationState.UNKNOWN:\n        out.watch(",
        ),
        f"{_RECONCILING_TESTS}::test_scenario_29_a_member_that_does_not_revoke_is_fenced",
    ),
    _rule(
        "timer-of-another-epoch",
        "The revocation timeout fences a member that has revoked and reached its next epoch meanwhile",
        Edit(
            _REMOVAL,
            "    if member is not None and member.current.epoch == event.epoch:\n",
            "    if member is not None:\n",
        ),
        f"{_RECONCILING_TESTS}::test_scenario_30_a_timer_of_an_earlier_epoch_has_no_effect",
    ),
    _rule(
        "no-sessions-after-a-restart",
        "Members loaded from the log never expire",
        Edit(
            _APPLYING,
            "        restart_session(group, member, out)\n        if member.current.state",
            "        if member.current.state",
        ),
        f"{_REPLAY_TESTS}::test_scenario_84_sessions_begin_anew_after_a_restart",
    ),
    _rule(
        "late-revocations-are-of-the-present-epoch",
        "A note on a late revocation names the group's present epoch, not the target that the member was told for",
        Edit("coordinator/groups/consumer/notes.py", "        epoch=epoch,\n        subject", "        subject"),
        "tests/groups/consumer/test_late_revocations.py"
        "::test_a_late_revocation_belongs_to_the_target_that_it_was_told_for",
    ),
    _rule(
        "no-revocation-timer-after-a-restart",
        "After a restart there is no revocation timeout for members that had partitions to revoke",
        Edit(
            _APPLYING,
            "        time_revocation(group, member.member_id, member.current, "
            "member.subscription.rebalance_timeout_ms, out)\n\n\ndef unload",
            "\n\ndef unload",
        ),
        f"{_REPLAY_TESTS}::test_scenario_84_a_restart_in_the_middle_of_a_revocation",
    ),
    _rule(
        "fence-not-tried-again",
        "A fence that the full disk refused is never retried",
        Edit(
            _APPLYING,
            "        member.session = DelayedSession(group, member)\n        out.watch(member.session)\n",
            "",
        ),
        f"{_PARTS_TESTS}::test_an_append_that_fails_is_answered_and_a_fence_is_tried_again",
    ),
    # --- static members (7) ---
    _rule(
        "live-instance-replaced",
        "A second process with the instance id of a live member takes its place",
        Edit(
            _GUARDS,
            "    return holder.is_away or holder.is_classic\n",
            "    return bool(holder.member_id)\n",
        ),
        f"{_STATIC_TESTS}::test_scenario_52_a_live_instance_is_not_replaced",
    ),
    _rule(
        "away-without-partitions",
        "A static member that leaves temporarily has no partitions when it returns",
        Edit(
            _REMOVAL,
            "member.current.previous_epoch, member.current.state, assigned, NONE_ASSIGNED)",
            "member.current.previous_epoch, member.current.state, {}, NONE_ASSIGNED)",
        ),
        f"{_STATIC_TESTS}::test_scenario_51_another_member_comes_back_for_the_instance",
    ),
    _rule(
        "away-keeps-what-it-must-revoke",
        "Partitions that a static member had to revoke stay reserved for it while it is away",
        Edit(
            _REMOVAL,
            "member.current.previous_epoch, member.current.state, assigned, NONE_ASSIGNED)",
            "member.current.previous_epoch, member.current.state, assigned, member.current.pending)",
        ),
        f"{_STATIC_TESTS}::test_scenario_56_pending_revocations_of_one_who_is_away_are_free_at_once",
    ),
    _rule(
        "no-room-for-a-static-member",
        "A group of the consumer protocol that is full refuses a static member in the place of itself",
        Edit(
            _GUARDS,
            "    if holder is not None and is_replaceable(holder):\n        return None\n    return Refusal(\n",
            "    if holder is not None and not is_replaceable(holder):\n        return None\n    return Refusal(\n",
        ),
        f"{_JOINING_TESTS}::test_scenario_17_a_static_member_comes_back_to_a_full_group",
    ),
    # --- regular expressions (6) ---
    _rule(
        "patterns-matched-at-each-heartbeat",
        "Patterns are matched at every heartbeat, not once in ten seconds",
        Edit(
            _REGEXES,
            "    if last_ms <= moment.wall_ms <= last_ms + _LEAST_INTERVAL_MS:\n",
            "    if last_ms <= moment.wall_ms < last_ms:\n",
        ),
        f"{_REGEX_TESTS}::test_scenario_46_a_new_pattern_waits_ten_seconds",
    ),
    _rule(
        "new-topic-not-matched",
        "A topic that is made after a pattern was resolved is matched with the next refresh alone",
        Edit(_REGEXES, "        or group.regexes_version != group.topics.version\n", ""),
        f"{_REGEX_TESTS}::test_scenario_47_a_new_topic_that_matches",
    ),
    _rule(
        "unmatched-pattern-keeps-topics",
        "Topics of a member's former pattern have no owner for ever if its new pattern matches nothing",
        Edit(_REGEXES, " or _is_target_stale(group, unmatched):\n", ":\n"),
        f"{_REGEX_TESTS}::test_topics_of_a_former_pattern_go_to_others_though_the_new_one_matches_nothing",
    ),
    _rule(
        "results-in-one-batch",
        "Results of all patterns are one batch: those of many are never written, and hold the node up",
        Edit(_REGEXES, "        if part and size + more > most_bytes:\n", "        if part and size + more < 0:\n"),
        f"{_SLICES_TESTS}::test_results_of_many_patterns_are_written_in_parts",
    ),
    _rule(
        "refused-result-tried-at-once",
        "Patterns whose result cannot be written are matched again at each heartbeat",
        Edit(_APPLYING, "        group.regexes_failed_ms = out.moment.wall_ms", "        pass"),
        f"{_SLICES_TESTS}::test_the_only_result_that_cannot_be_written_is_tried_again_after_ten_seconds",
    ),
    _rule(
        "retry-writes-all-results",
        "One result that is refused for ever lets all others be written again every ten seconds",
        Edit(
            _REGEXES, "        if event.is_retry and not is_new and regex in group.resolved:\n", "        if False:\n"
        ),
        f"{_SLICES_TESTS}::test_only_the_result_that_could_not_be_written_is_tried_again",
    ),
    _rule(
        "changed-part-moves-no-epoch",
        "Of a result in parts only the last moves the epoch: after a crash members keep the targets of before",
        Edit(
            _REGEXES,
            "    if is_changed or digest != had or ",
            "    if (event.is_last and is_changed) or digest != had or ",
        ),
        f"{_SLICES_TESTS}::test_a_crash_between_two_parts_of_a_result_moves_the_epoch",
    ),
    # --- offsets (10) ---
    _rule(
        "stale-commits-stored",
        "A commit with an older epoch is stored though another member has had the partition since",
        Edit(
            _OFFSETS,
            "    if epoch > current.epoch or not _held_since(group, current, request, is_storable):\n",
            "    if epoch > current.epoch:\n",
        ),
        f"{_OFFSETS_TESTS}::test_scenario_58_member_epochs_of_a_commit",
    ),
    _rule(
        "older-epochs-stale",
        "A commit of a partition that a member has always held is refused after its epoch has grown",
        Edit(
            _OFFSETS,
            "    if epoch > current.epoch or not _held_since(group, current, request, is_storable):\n",
            "    if epoch != current.epoch:\n",
        ),
        f"{_OFFSETS_TESTS}::test_scenario_58_member_epochs_of_a_commit",
    ),
    _rule(
        "last-commit-refused",
        "Offsets of partitions that a member must revoke cannot be committed",
        Edit(
            _OFFSETS,
            "held = {**current.pending.get(known.topic_id, {}), **current.assigned.get(known.topic_id, {})}\n",
            "held = {**current.assigned.get(known.topic_id, {})}\n",
        ),
        f"{_OFFSETS_TESTS}::test_scenario_59_a_partition_to_be_revoked_is_committed_with_its_epoch",
    ),
    _rule(
        "fetches-of-any-epoch",
        "Offsets are returned to a member in an older epoch that does not own the partitions",
        Edit(
            _OFFSETS,
            "    return _NONE if request.member_epoch == member.current.epoch else _stale(member)\n",
            "    return _NONE if request.member_epoch <= member.current.epoch else _stale(member)\n",
        ),
        f"{_OFFSETS_TESTS}::test_scenario_62_fetches",
    ),
    # --- classic members (12) ---
    _rule(
        "classic-member-not-told",
        "A classic member that waits for partitions is never told to join again when they are free",
        Edit(
            _STAYING,
            "    return current.state is _WAITING and has_all_free(group, member)\n",
            "    return current.state is _WAITING and not group.members\n",
        ),
        f"{_CLASSIC_TESTS}::test_scenario_67_a_classic_member_gets_what_the_other_gives_up",
    ),
    _rule(
        "rejoin-timer-left-out",
        "A classic member that must join again, but only sends heartbeats, is waited for without end",
        Edit(
            _STAYING,
            "    time_rejoin(group, member, out)\n    out.reply_at_once(event.ref, HeartbeatReply(",
            "    out.reply_at_once(event.ref, HeartbeatReply(",
        ),
        f"{_CLASSIC_TESTS}::test_scenario_70_a_classic_member_must_sync_join_again_and_be_heard",
    ),
    _rule(
        "sync-timer-left-out",
        "A classic member that has joined and never syncs is waited for without end",
        Edit(f"{_CLASSIC}/joining.py", "        time_first_sync(group, member, out)\n", "        pass\n"),
        f"{_CLASSIC_TESTS}::test_scenario_70_a_classic_member_must_sync_join_again_and_be_heard",
    ),
    _rule(
        "late-join-times-the-sync",
        "A classic member is removed after a JoinGroup that came late, on a closed connection, after it had synced",
        Edit(f"{_CLASSIC}/joining.py", "    if event.must_sync or member.sync_until_ms >= 0:\n", "    if True:\n"),
        f"{_CLASSIC_TESTS}::test_a_join_group_that_comes_late_does_not_remove_the_member_that_has_synced",
    ),
    _rule(
        "told-in-a-lost-reply",
        "A member is removed for partitions that it was asked to revoke only in the lost reply to a late heartbeat",
        Edit(
            _HEARTBEATS,
            "        or (member is not None and member.told_connection not in {-1, event.ref.connection})\n",
            "",
        ),
        f"{_NODE_TESTS}::test_what_a_late_heartbeat_was_told_is_told_again_on_the_members_present_connection",
    ),
    _rule(
        "late-report-gives-up",
        "A heartbeat that comes late, from before its member owned anything, gives up what the member must revoke",
        Edit(
            _HEARTBEATS,
            "None if member is not None and event.ref.connection < member.connection else _owned(event.request)",
            "_owned(event.request)",
        ),
        f"{_NODE_TESTS}::test_what_a_late_heartbeat_does_not_own_is_not_given_up",
    ),
    _rule(
        "late-join-gives-up",
        "A JoinGroup that comes late, from before its member owned anything, gives up what the member must revoke",
        Edit(f"{_CLASSIC}/joining.py", "None if is_late else owned_partitions(", "owned_partitions("),
        f"{_CLASSIC_TESTS}::test_what_a_late_join_group_does_not_own_is_not_given_up",
    ),
    _rule(
        "late-join-of-a-waiting-member",
        "A classic member that waits for partitions is removed after a JoinGroup that came late, after it had synced",
        Edit(f"{_CLASSIC}/joining.py", "not _is_told(member.current, current)", "current != member.current"),
        f"{_CLASSIC_TESTS}::test_a_join_group_that_comes_late_while_others_hold_its_partitions_does_not_remove_the_member",
    ),
    _rule(
        "unread-topic-hides-an-orphan",
        "An upgrade counts partitions of topics that nobody reads: one without an owner is not noticed",
        Edit(
            _UPGRADE,
            "any(len(group.holders.get(topic.topic_id, ())) < topic.partitions for topic in topics)",
            "group.targeted < sum(topic.partitions for topic in topics)",
        ),
        f"{_CONVERSION_TESTS}::test_an_upgrade_by_a_member_ends_the_rebalance_of_the_classic_group",
    ),
    _rule(
        "upgrade-ends-no-rebalance",
        "A group that is upgraded in the middle of a rebalance leaves partitions without an owner",
        Edit(
            _UPGRADE,
            "    planned.group.must_rebalance = _is_unfinished(planned.group, group.classic)\n",
            "",
        ),
        f"{_CONVERSION_TESTS}::test_an_upgrade_by_a_member_ends_the_rebalance_of_the_classic_group",
    ),
    _rule(
        "former-member-keeps-its-partitions",
        "A removed classic member joins again with its former partitions, which others own by now",
        Edit(
            f"{_CLASSIC}/guards.py",
            "    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID) if subscription.owned_partitions else None\n",
            "    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID) if subscription is None else None\n",
        ),
        f"{_CLASSIC_TESTS}::test_a_member_that_was_removed_joins_only_without_what_it_owned",
    ),
    _rule(
        "replacement-is-not-timed",
        "A classic member that takes the place of one with partitions to revoke may keep them without end",
        Edit(
            _MEMBERS,
            "        time_revocation(group, change.member_id, change.current, change.line.rebalance_timeout_ms, out)\n"
            "    if change.line != change.before:\n",
            "    if change.line != change.before:\n",
        ),
        f"{_CLASSIC_TESTS}::test_a_replacement_that_does_not_revoke_is_fenced",
    ),
    # --- conversions (13) ---
    _rule(
        "upgrade-whatever-the-policy",
        "A classic group is upgraded although its migration policy forbids it",
        Edit(
            _UPGRADE,
            "    if not settings.migration_policy.allows_upgrade:\n",
            "    if not settings.migration_policy:\n",
        ),
        f"{_CONVERSION_TESTS}::test_scenario_75_an_upgrade_is_refused_and_the_group_stays_as_it_is",
    ),
    _rule(
        "upgrade-loses-data-of-an-assignor",
        "A group whose assignor has data of its own is upgraded, and the data is lost",
        Edit(_UPGRADED, "            if one.has_data_of_assignor:\n", "            if not one.assignment:\n"),
        f"{_CONVERSION_TESTS}::test_scenario_75_an_upgrade_is_refused_and_the_group_stays_as_it_is",
    ),
    _rule(
        "upgrade-forgets-what-members-own",
        "A group is upgraded during a cooperative rebalance: partitions that its members still read count as free",
        Edit(
            _UPGRADED,
            "        owned = dict.fromkeys(key for key in one.owned_partitions if key not in taken)\n",
            "        owned = dict.fromkeys(())\n",
        ),
        f"{_CONVERSION_TESTS}::test_partitions_that_members_own_in_the_middle_of_a_rebalance_stay_theirs",
    ),
    _rule(
        "upgrade-with-two-owners",
        "A group whose assignor gives a partition to two members is upgraded: it has two owners",
        Edit(
            _UPGRADED,
            "                if (other := holders.setdefault(key, member.member_id)) != member.member_id:\n",
            "                if not (other := holders.setdefault(key, member.member_id)):\n",
        ),
        f"{_CONVERSION_TESTS}::test_an_upgrade_takes_only_partitions_that_exist_and_that_one_member_has",
    ),
    _rule(
        "upgrade-before-all-have-joined",
        "A group that has just become classic is upgraded before its members revoked what others are assigned",
        Edit(
            _UPGRADE,
            "    if classic.stored is not None and classic.stored.state_timestamp_ms == HOLDS_MORE_MS:\n",
            "    if classic.stored is not None and not classic.stored.state_timestamp_ms:\n",
        ),
        f"{_CONVERSION_TESTS}::test_a_group_goes_over_again_once_nobody_holds_what_another_is_assigned",
    ),
    _rule(
        "upgrade-of-what-was",
        "A large group is upgraded as it was when that began: members that came or left meanwhile do not count",
        Edit(
            _UPGRADE,
            "    if isinstance(planned, _Plan) and not planned.is_of(group):\n",
            "    if isinstance(planned, _Plan) and not planned.read:\n",
        ),
        "tests/node/test_large_conversions.py::test_a_group_that_changes_meanwhile_is_planned_anew",
    ),
    _rule(
        "upgrade-without-sessions",
        "Classic members of an upgraded group never expire",
        Edit(
            _STAYING,
            "            member.connection = connection\n            restart_session(group, member, out)\n",
            "            member.connection = connection\n",
        ),
        _WORLDS,
    ),
    _rule(
        "downgrade-whatever-the-policy",
        "A group whose last consumer leaves becomes a classic one although its policy forbids it",
        Edit(_DOWNGRADE, "        group.settings.migration_policy.allows_downgrade\n        and ", "        "),
        f"{_CONVERSION_TESTS}::test_scenario_78_a_policy_without_downgrades_keeps_the_group",
    ),
    _rule(
        "downgrade-with-consumers",
        "A group becomes a classic one while it has members that do not speak the classic protocol",
        Edit(
            _DOWNGRADE,
            "        and of_group == len(group.members) - group.classic_members\n",
            "",
        ),
        _WORLDS,
    ),
    _rule(
        "downgrade-forgets-who-holds-more",
        "The record of a downgrade does not say that members still hold what others are assigned",
        Edit(
            _DOWNGRADE,
            "    return HOLDS_MORE_MS if holds_more else REBALANCE_AFTER_LOAD_MS\n",
            "    return REBALANCE_AFTER_LOAD_MS\n",
        ),
        f"{_CONVERSION_TESTS}::test_a_group_goes_over_again_once_nobody_holds_what_another_is_assigned",
    ),
    _rule(
        "leavers-share-is-its-holders",
        "After a downgrade what was to go to the member that has left counts as assigned to its holder",
        Edit(
            _DOWNGRADE,
            "        number not in targets[member_id].get(topic_id, ()) or",
            "        any(number in one.get(topic_id, ()) for name, one in targets.items() if name != member_id) or",
        ),
        f"{_CONVERSION_TESTS}::test_what_was_to_go_to_the_leaver_stays_with_its_holder_until_that_has_joined_again",
    ),
    _rule(
        "topics-without-a-name-are-nobodys",
        "After a downgrade without topics, whose record assigns nothing, nobody counts as holding anything",
        Edit(_DOWNGRADE, " or group.topics.name_of(topic_id) is None\n", "\n"),
        "tests/upstream/test_server_driven.py"
        "::test_a_group_that_becomes_classic_without_topics_takes_nothing_from_its_members",
    ),
    _rule(
        "replacement-has-nothing-to-revoke",
        "After a downgrade an instance that comes back classic does not count as holding what it was to revoke",
        Edit(
            _DOWNGRADE,
            "    currents = {**{one.member_id: one.current for one in others}, change.member_id: change.current}\n",
            "    currents = {one.member_id: one.current for one in others}\n",
        ),
        f"{_CONVERSION_TESTS}"
        "::test_what_the_replaced_member_was_to_revoke_stays_with_its_instance_until_that_has_joined",
    ),
)
MUTANTS = (
    *_RULES,
    *[
        Mutant(f"{rule.name}-in-worlds", f"{rule.story}: {_SEEN_BY_MEMBERS[rule.name]}", rule.edits, _WORLDS)
        for rule in _RULES
        if rule.name in _SEEN_BY_MEMBERS
    ],
)
