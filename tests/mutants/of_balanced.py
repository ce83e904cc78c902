"""Client-balanced groups in the coordinator: the scenarios of section 17 that are the server's."""

from tests.mutants.mutant import Edit, without

_BALANCED = "coordinator/groups/client_balanced"
_CHECKS = f"{_BALANCED}/checks.py"
_EVENTS = f"{_BALANCED}/events.py"
_GRANTS = f"{_BALANCED}/grants.py"
_GUARDS = f"{_BALANCED}/guards.py"
_APPLYING = f"{_BALANCED}/applying.py"
_MEMBERS = f"{_BALANCED}/members.py"
_META = f"{_BALANCED}/meta.py"
_REGISTERING = f"{_BALANCED}/registering.py"
_REPORTING = f"{_BALANCED}/reporting.py"
_REQUESTS = "coordinator/handlers/start_member.py"
_VIEWS = "coordinator/handlers/describe_balanced.py"

MUTANTS = (
    without(
        "CB5",
        "A member may have any node id, whatever the source count",
        Edit(
            _CHECKS,
            "    if request.source_count > 0 and not 0 <= request.node_id < request.source_count:\n",
            "    if request.source_count > 1_000 and not 0 <= request.node_id < request.source_count:\n",
        ),
    ),
    without(
        "CB8",
        "A member may have another source count than the group",
        Edit(
            _GUARDS,
            "    if not group.members or wanted == source_count_of(event.request):\n",
            "    if not group.members or (wanted is None) == (source_count_of(event.request) is None):\n",
        ),
    ),
    without(
        "CB9",
        "A member with a source count may join a group without one",
        Edit(
            _GUARDS,
            "    if not group.members or wanted == source_count_of(event.request):\n",
            "    if not group.members or wanted in (None, source_count_of(event.request)):\n",
        ),
    ),
    without(
        "CB10",
        "Two members may have the same node id",
        Edit(
            _GUARDS,
            "    if holder is None or holder is replaced_by(group, event.request):\n",
            "    if holder is None or holder.consumer_id in group.members:\n",
        ),
    ),
    without(
        "CB11",
        "Members without an instance id count as one instance: a new one replaces the old at once",
        Edit(_GUARDS, "    if request.instance_id is None:\n        return None\n", ""),
    ),
    without(
        "CB12",
        "The group does not record replaced objects",
        Edit(
            _MEMBERS,
            " if replaced is None else (*stored.replaced, replaced.consumer_id)[-_MOST_REPLACED:]\n",
            "\n",
        ),
    ),
    without(
        "CB13",
        "An object that starts again keeps its first node id",
        Edit(
            _APPLYING,
            "    known.instance_id, known.node_id, known.consume_position = "
            "line.instance_id, line.node_id, line.consume_position\n",
            "    known.instance_id, known.consume_position = line.instance_id, line.consume_position\n",
        ),
    ),
    without(
        "CB14",
        "Settings of the members still bind new members when all have left",
        Edit(
            _GUARDS,
            "    if not group.members or wanted == source_count_of(event.request):\n",
            "    if group.stored is None or wanted == source_count_of(event.request):\n",
        ),
    ),
    without(
        "CB15",
        "Node ids are compared in groups without a source count",
        Edit(
            _GUARDS,
            "    if group.on_record.source_count is None or not group.members:\n",
            "    if not group.members:\n",
        ),
        Edit(
            _GUARDS,
            "    return request.node_id if request.source_count > 0 else None\n",
            "    return request.node_id\n",
        ),
    ),
    without(
        "CB16",
        "Members that balance themselves join a group that the coordinator balances",
        Edit(
            _REQUESTS,
            "    if group.classic.state is not GroupState.EMPTY:\n",
            "    if group.classic.state is GroupState.DEAD:\n",
        ),
    ),
    without(
        "CB17",
        "Another mode is reported as a difference of topics",
        Edit(
            _REQUESTS,
            "        return Refusal(ErrorCode.INCONSISTENT_MODE,",
            "        return Refusal(ErrorCode.INCONSISTENT_TOPICS,",
        ),
    ),
    without(
        "CB18",
        "A member that reads fewer topics than the group is admitted",
        Edit(
            _GUARDS,
            "    if not group.members or topics == topics_of(event.request):\n",
            "    if not group.members or set(topics) >= set(topics_of(event.request)):\n",
        ),
    ),
    without(
        "CB19",
        "Only the presence of filters is compared, not the filters",
        Edit(
            _GUARDS,
            "    if not group.members or filters == filters_of(event.request):\n",
            "    if not group.members or len(filters) == len(filters_of(event.request)):\n",
        ),
    ),
    without(
        "CB20",
        "A member may start with topics that do not exist",
        Edit(
            _CHECKS,
            "        if not is_deployed(topic):\n",
            "        if topic in request.filters and not is_deployed(topic):\n",
        ),
    ),
    without(
        "CB21",
        "The balancing pass assigns partitions to groups whose members choose theirs",
        Edit(
            "coordinator/tasks/balancing.py",
            " += [one for one in _balanced(shard) if one.as_balanced().is_server_balanced]\n",
            " += _balanced(shard)\n",
        ),
        Edit(
            f"{_BALANCED}/balancing.py",
            "    if not group.is_server_balanced or made_for == group.assigned_for:\n",
            "    if made_for == group.assigned_for:\n",
        ),
    ),
    without(
        "CB25",
        "A partition is granted to the last member that asks for it",
        Edit(
            _REGISTERING,
            "    if entry is None or entry.owner is None or entry.owner.member_id == member.consumer_id:\n",
            "    if entry is None or entry.owner is None or group.owner(key) is not None:\n",
        ),
    ),
    without(
        "CB28",
        "The grants of an expired member stay in force",
        Edit(
            _MEMBERS,
            "        _drop(group, one, out, BalancedCause.LEASE_OVER, len(group.members) - number)\n",
            "        assert number\n",
        ),
    ),
    without(
        "CB29",
        "A former owner of a partition may commit for it",
        Edit(
            _REGISTERING,
            "group.grant(key, request.consumer_id, item.reg_epoch)",
            "group.owners.get(key)",
        ),
    ),
    without(
        "CB31",
        "A stored offset is ignored at the start of reading",
        Edit(_GRANTS, "    if place.committed >= 0:\n", "    if place.committed < -1:\n"),
    ),
    without(
        "CB32",
        "A named offset is used for reading, but not stored",
        Edit(_REGISTERING, "    if item.offset >= 0:\n", "    if item.offset < -1:\n"),
    ),
    without(
        "CB33",
        "An offset out of range is used unchanged",
        Edit(_EVENTS, "        return min(max(offset, self.begin), self.end)\n", "        return offset\n"),
    ),
    without(
        "CB34",
        "Without a stored offset, `latest` begins at the start of the log",
        Edit(
            _GRANTS,
            "    return place.end if is_first and policy == LATEST else place.begin\n",
            "    return place.end if is_first and policy == FIRST else place.begin\n",
        ),
    ),
    without(
        "CB35",
        "always_max skips to the end at every registration",
        Edit(_GRANTS, "    if is_first and policy == ALWAYS_MAX:\n", "    if policy == ALWAYS_MAX:\n"),
    ),
    without(
        "CB36",
        "A refused registration changes the stored offset",
        Edit(
            _REGISTERING,
            "        answer = _refusal(group, member, item, key, place)\n",
            "        answer = _refusal(group, member, item, key, place)\n"
            "        held = None if key is None else group.owners.get(key)\n"
            "        if held is not None and place is not None and item.offset >= 0:\n"
            "            out.records.append(commit(group, held, place.clamp(item.offset), out))\n",
        ),
    ),
    without(
        "CB48",
        "The lag is known only for owned partitions",
        Edit(
            _VIEWS,
            "    place = place_of(core, shard, group.group_id, *key) if with_lag else None\n",
            "    place = place_of(core, shard, group.group_id, *key) if with_lag and owner else None\n",
        ),
    ),
    without(
        "CB49",
        "Claims of partitions that a member does not own are not marked",
        Edit(
            _REPORTING,
            "        if key is None or group.grant(key, consumer_id, claim.reg_epoch) is None:\n",
            "        if key is None:\n",
        ),
    ),
    without(
        "CB50",
        "A heartbeat without a report counts as a report of no partitions",
        Edit(
            _REPORTING,
            "    extend_lease(group.members[request.consumer_id], now_ms)\n    return ErrorCode.NONE\n",
            "    extend_lease(group.members[request.consumer_id], now_ms)\n"
            "    group.members[request.consumer_id].reported = ()\n    return ErrorCode.NONE\n",
        ),
    ),
    without(
        "CB51",
        "A member that leaves keeps partitions that it does not release explicitly",
        Edit(_MEMBERS, "    out.records.extend(map(group.owners.ended, rest))\n", ""),
    ),
    without(
        "CB52",
        "Owners are described as members reported them",
        Edit(
            _VIEWS,
            "        keys=tuple([group.key_of(entry) for entry in group.owners.of(member.consumer_id)]),\n",
            "        keys=tuple([one.key for one in member.reported or ()]),\n",
        ),
    ),
    without(
        "CB53",
        "After a restart no member has a lease",
        Edit(_APPLYING, "        watch_lease(group, member, out)\n", "        member.heard_ms = 0\n"),
    ),
    without(
        "CB54",
        "A lease is five seconds shorter than the session timeout in the reply",
        Edit(
            _GRANTS,
            "    deadline_ms = now_ms + member.session_timeout_ms\n",
            "    deadline_ms = now_ms + member.session_timeout_ms - 5_000\n",
        ),
    ),
    without(
        "CB58",
        "A member that starts after an operator's order also seeks to the end",
        Edit(
            _REPORTING,
            "    return wanted if wanted > max(member.mark, request.ops_ack) else 0\n",
            "    return wanted if wanted > request.ops_ack else 0\n",
        ),
    ),
    without(
        "CB59",
        "An unknown lag is 0",
        Edit(
            _VIEWS,
            "    if place is None:\n        return None\n",
            "    if place is None:\n        return 0\n",
        ),
    ),
)
