"""Bugs of joining, syncing, leaving and being forgotten."""

from tests.mutants.mutant import Edit, Mutant, Transcript, Worlds

_CLASSIC = "coordinator/groups/classic"
_ACTIONS = f"{_CLASSIC}/actions.py"
_DELAYED = f"{_CLASSIC}/delayed.py"
_REBALANCE = f"{_CLASSIC}/rebalance.py"
_STATIC = f"{_CLASSIC}/static.py"
_TABLE = f"{_CLASSIC}/table.py"

MUTANTS = (
    Mutant(
        "nobody-waits-for-syncs",
        "A group whose members never sync stays in CompletingRebalance: nothing ends the sync phase",
        (
            Edit(
                _REBALANCE,
                "    _wait(group, out, DelayedSync(group, out.moment.monotonic_ms + group.rebalance_timeout_ms))\n",
                "    group.phase = None\n    out.cancel(PhaseKey(group.group_id))\n",
            ),
        ),
        Worlds(),
        "KAFKA-12890",
    ),
    Mutant(
        "leader-dies-before-its-sync",
        "The leader's session ends in CompletingRebalance and no rebalance begins: the others wait for it for ever",
        (
            Edit(
                _ACTIONS,
                "    if group.state is GroupState.PREPARING:\n        note(group",
                "    if group.state in (GroupState.PREPARING, GroupState.COMPLETING):\n        note(group",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "pending-ids-pass-the-limit",
        "A member that returns with its pending id is admitted although the group is full by now",
        (
            Edit(
                _TABLE,
                "guards=(unless(has_room, actions.refuse_full), protocols_agree, names_no_instance),",
                "guards=(protocols_agree, names_no_instance),",
            ),
        ),
        Transcript("06_group_max_size"),
        "KAFKA-9885",
    ),
    Mutant(
        "full-group-refuses-a-static-member",
        "A static member that returns to a full group is refused, though it would replace itself",
        (
            Edit(
                _TABLE,
                "        guards=(protocols_agree,),\n        empty=reject(ErrorCode.UNKNOWN_SERVER_ERROR),\n",
                "        guards=(unless(has_room, actions.refuse_full), protocols_agree),\n"
                "        empty=reject(ErrorCode.UNKNOWN_SERVER_ERROR),\n",
            ),
        ),
        Transcript("06_group_max_size"),
        "KAFKA-20601",
    ),
    Mutant(
        "pending-ids-never-expire",
        "A pending id that is never used delays every later rebalance",
        (
            Edit(
                _DELAYED,
                "        return PendingIdOverdue(self.group.group_id, self.pending.member_id)",
                "        return None",
            ),
        ),
        Transcript("01_joining_and_member_ids"),
        "Redpanda #3761",
    ),
    Mutant(
        "pending-id-may-not-leave",
        "A LeaveGroup of a pending id is refused, and the rebalance still waits for it",
        (Edit(_ACTIONS, "    elif member_id in group.pending:\n", "    elif member_id in ():\n"),),
        Transcript("01_joining_and_member_ids"),
        "KAFKA-7909",
    ),
    Mutant(
        "leaving-does-not-end-the-join-phase",
        "The last awaited member leaves or expires, but the joined members still wait for the timeout",
        (
            Edit(
                "coordinator/runtime/shard.py",
                "            if (phase := classic.phase) is not None and phase.is_satisfied():\n",
                "            if (phase := classic.phase) is not None and phase.is_satisfied() and "
                'type(event).__name__ not in ("Leave", "SessionOverdue"):\n',
            ),
        ),
        Transcript("05_join_completion"),
        "KoP #380",
    ),
    Mutant(
        "static-member-replaced-before-the-assignment",
        "An instance that restarts in CompletingRebalance takes its place in the same generation, whose leader assigns "
        "to the id it had",
        (
            Edit(
                _TABLE,
                "completing=static.replace_static_unsynced,",
                "completing=static.replace_static_stable,",
            ),
        ),
        Transcript("07_static_membership"),
        "KAFKA-9801",
    ),
    Mutant(
        "static-replacement-not-on-record",
        "The new id of a restarted instance is only in memory: a crash brings the old one back",
        (
            Edit(
                _STATIC,
                '    member_id = out.ids.member_id(event.request.group_instance_id or "")\n    request = ',
                "    new = _replace(group, event, out)\n"
                "    new.connection = event.ref.connection\n"
                "    out.reply(event.ref, join_reply(group, new.member_id, ()))\n"
                "    return\n"
                '    member_id = out.ids.member_id(event.request.group_instance_id or "")\n    request = ',
            ),
        ),
        Worlds(),
        "KAFKA-10284",
    ),
    Mutant(
        "two-members-of-one-instance",
        "An instance that restarts during a rebalance is admitted beside its former member",
        (Edit(_TABLE, "preparing=static.replace_static,", "preparing=actions.admit,"),),
        Worlds(),
        "KAFKA-8500",
    ),
    Mutant(
        "static-member-keeps-its-old-timeout",
        "An instance that restarts with another rebalance timeout keeps the one it had",
        (
            Edit(
                _STATIC,
                "        rebalance_timeout_ms=rebalance_timeout_ms(request),\n",
                "        rebalance_timeout_ms=old.rebalance_timeout_ms,\n",
            ),
        ),
        Transcript("07_static_membership"),
        "KAFKA-14009",
    ),
    Mutant(
        "first-session-lasts-five-minutes",
        "A new member keeps the timeout of its first join as its session timeout",
        (
            Edit(
                _REBALANCE,
                "must_file = member.session is None or deadline_ms < member.deadline_ms",
                "must_file = member.session is None",
            ),
        ),
        Worlds(),
        "KAFKA-9232",
    ),
    Mutant(
        "new-members-never-expire",
        "A member that hung up in its first join is kept for as long as the rebalance lasts",
        (
            Edit(
                _DELAYED,
                "return not member.is_new and (member.join_ref is not None or member.sync_ref is not None)",
                "return member.join_ref is not None or member.sync_ref is not None",
            ),
        ),
        Worlds(),
        "KAFKA-7610",
    ),
    Mutant(
        "no-rebalance-timeout-is-none-at-all",
        "A member that names no rebalance timeout counts with -1 and not with its session timeout: the others are "
        "dropped before they can join again",
        (
            Edit(
                _REBALANCE,
                "    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 "
                "else request.rebalance_timeout_ms\n",
                "    return request.rebalance_timeout_ms\n",
            ),
        ),
        Transcript("01_joining_and_member_ids"),
        "brod #465 (Redpanda)",
    ),
    Mutant(
        "absent-leader-elected",
        "A static leader that did not join again leads the next generation all the same, and nobody assigns",
        (
            Edit(
                f"{_CLASSIC}/election.py",
                "    if present is not None and present.join_ref is not None:\n",
                "    if present is not None:\n",
            ),
        ),
        Transcript("05_join_completion"),
        "KAFKA-8220",
    ),
    Mutant(
        "session-not-resumed-after-sync",
        "A session that ended while its member's sync was parked does not restart when the sync is answered",
        (
            Edit(
                _ACTIONS,
                "out.reply(ref, _assigned(group, member))\n            restart_session(group, member, out)\n",
                "out.reply(ref, _assigned(group, member))\n",
            ),
        ),
        Transcript("08_sync_group"),
        "apache/kafka #451",
    ),
    Mutant(
        "session-not-resumed-after-join",
        "The same when the join is answered",
        (
            Edit(
                _REBALANCE,
                "its session deadline stays\n            restart_session(group, member, out)\n",
                "its session deadline stays\n",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "absent-member-kept-alive",
        "A rebalance that completes without a static member begins its session anew: a dead one is never dropped while "
        "others come and go",
        (
            Edit(
                _REBALANCE,
                "        group.pending_sync[member.member_id] = None\n        ref = group.take_join(member)\n",
                "        group.pending_sync[member.member_id] = None\n        restart_session(group, member, out)\n"
                "        ref = group.take_join(member)\n",
            ),
        ),
        Transcript("05_join_completion"),
        "Apache Kafka 4.3.1",
    ),
    Mutant(
        "rejoining-loses-the-assignment",
        "A follower that joins a Stable group again, and is told that nothing has changed, has lost what it was "
        "assigned",
        (
            Edit(
                _ACTIONS,
                "    leads = group.leader == member.member_id\n    member.connection",
                '    leads = group.leader == member.member_id\n    member.assignment = b""\n    member.connection',
            ),
        ),
        Transcript("04_rejoining"),
        "SeaweedFS #9143",
    ),
    Mutant(
        "sync-answered-while-rebalancing",
        "A SyncGroup of a group that is rebalancing is answered with what was assigned before",
        (
            Edit(
                _TABLE,
                "        preparing=reject(ErrorCode.REBALANCE_IN_PROGRESS),\n        completing=actions.collect_sync,",
                "        preparing=actions.answer_sync,\n        completing=actions.collect_sync,",
            ),
        ),
        Transcript("08_sync_group"),
        "SeaweedFS #9143",
    ),
    Mutant(
        "generations-begin-again",
        "The generation of a group that became Empty is lost, and its numbers are used twice",
        (
            Edit(
                _REBALANCE,
                "        generation_id=group.generation_id,\n        protocol=None,",
                "        generation_id=0,\n        protocol=None,",
            ),
        ),
        Worlds(),
        "KAFKA-2720",
    ),
    Mutant(
        "parked-join-forgotten",
        "Of a member that joins twice in one phase the first request is never answered",
        (
            Edit(
                _REBALANCE,
                "    older = group.park_join(member, event.ref)\n    if older is not None:\n",
                "    older = group.park_join(member, event.ref)\n"
                "    if older is not None and group.state is GroupState.DEAD:\n",
            ),
        ),
        Transcript("04_rejoining"),
    ),
    Mutant(
        "sessions-not-begun-after-loading",
        "Members that a restarted node has loaded from its log never expire",
        (
            Edit(
                f"{_CLASSIC}/applying.py",
                "    for member in group.members.values():\n        restart_session(group, member, out)\n",
                "",
            ),
        ),
        Worlds(),
    ),
    Mutant(
        "stalls-count-as-silence",
        "Sessions run while the process is stopped: heartbeats wait in sockets, and their members are evicted",
        (Edit("coordinator/active_clock.py", "        self.lost_ms += stall_ms\n", ""),),
        Worlds(3, 244),
    ),
)
