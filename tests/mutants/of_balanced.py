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
        "A member may have any number, however many are counted on",
        Edit(
            _CHECKS,
            "    if request.source_count > 0 and not 0 <= request.node_id < request.source_count:\n",
            "    if request.source_count > 1_000 and not 0 <= request.node_id < request.source_count:\n",
        ),
    ),
    without(
        "CB8",
        "Whoever counts its members counts right",
        Edit(
            _GUARDS,
            "    if not group.members or wanted == source_count_of(event.request):\n",
            "    if not group.members or (wanted is None) == (source_count_of(event.request) is None):\n",
        ),
    ),
    without(
        "CB9",
        "Where nobody counts, one may begin to",
        Edit(
            _GUARDS,
            "    if not group.members or wanted == source_count_of(event.request):\n",
            "    if not group.members or wanted in (None, source_count_of(event.request)):\n",
        ),
    ),
    without(
        "CB10",
        "Two members may have one number",
        Edit(
            _GUARDS,
            "    if holder is None or holder is replaced_by(group, event.request):\n",
            "    if holder is None or holder.consumer_id in group.members:\n",
        ),
    ),
    without(
        "CB11",
        "Members without an instance id are all of one instance: a new one replaces the old at once",
        Edit(_GUARDS, "    if request.instance_id is None:\n        return None\n", ""),
    ),
    without(
        "CB12",
        "Nobody remembers which objects were replaced",
        Edit(
            _MEMBERS,
            " if replaced is None else (*stored.replaced, replaced.consumer_id)[-_MOST_REPLACED:]\n",
            "\n",
        ),
    ),
    without(
        "CB13",
        "An object that starts again keeps its first number",
        Edit(
            _APPLYING,
            "    known.instance_id, known.node_id, known.consume_position = "
            "line.instance_id, line.node_id, line.consume_position\n",
            "    known.instance_id, known.consume_position = line.instance_id, line.consume_position\n",
        ),
    ),
    without(
        "CB14",
        "What the members agreed on binds those who come when all have gone",
        Edit(
            _GUARDS,
            "    if not group.members or wanted == source_count_of(event.request):\n",
            "    if group.stored is None or wanted == source_count_of(event.request):\n",
        ),
    ),
    without(
        "CB15",
        "Numbers count where nobody counts",
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
        "A group of another kind is taken for one that reads other topics",
        Edit(
            _REQUESTS,
            "        return Refusal(ErrorCode.INCONSISTENT_MODE,",
            "        return Refusal(ErrorCode.INCONSISTENT_TOPICS,",
        ),
    ),
    without(
        "CB18",
        "Who reads fewer topics than the group is let in",
        Edit(
            _GUARDS,
            "    if not group.members or topics == topics_of(event.request):\n",
            "    if not group.members or set(topics) >= set(topics_of(event.request)):\n",
        ),
    ),
    without(
        "CB19",
        "That a topic is filtered counts, and not what for",
        Edit(
            _GUARDS,
            "    if not group.members or filters == filters_of(event.request):\n",
            "    if not group.members or len(filters) == len(filters_of(event.request)):\n",
        ),
    ),
    without(
        "CB20",
        "Topics that are not there are read all the same",
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
        "A partition is the last one's who asks",
        Edit(
            _REGISTERING,
            "    if entry is None or entry.owner is None or entry.owner.member_id == member.consumer_id:\n",
            "    if entry is None or entry.owner is None or group.owner(key) is not None:\n",
        ),
    ),
    without(
        "CB28",
        "A member that fell silent is gone, and what it owned is its",
        Edit(
            _MEMBERS,
            "        _drop(group, one, out, BalancedCause.LEASE_OVER, len(group.members) - number)\n",
            "        assert number\n",
        ),
    ),
    without(
        "CB29",
        "Who owned a partition before may commit for it",
        Edit(
            _REGISTERING,
            "group.grant(key, request.consumer_id, item.reg_epoch)",
            "group.owners.get(key)",
        ),
    ),
    without(
        "CB31",
        "What is stored does not count where reading begins",
        Edit(_GRANTS, "    if place.committed >= 0:\n", "    if place.committed < -1:\n"),
    ),
    without(
        "CB32",
        "An offset that is named is read from and not stored",
        Edit(_REGISTERING, "    if item.offset >= 0:\n", "    if item.offset < -1:\n"),
    ),
    without(
        "CB33",
        "An offset out of reach is taken as it is",
        Edit(_EVENTS, "        return min(max(offset, self.begin), self.end)\n", "        return offset\n"),
    ),
    without(
        "CB34",
        "With nothing stored, who wants the latest begins at the beginning",
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
        "Who is refused a partition has moved its stored offset all the same",
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
        "How far a partition is behind is known of those that somebody reads",
        Edit(
            _VIEWS,
            "    place = place_of(core, shard, group.group_id, *key) if with_lag else None\n",
            "    place = place_of(core, shard, group.group_id, *key) if with_lag and owner else None\n",
        ),
    ),
    without(
        "CB49",
        "What a member claims and does not own is not marked",
        Edit(
            _REPORTING,
            "        if key is None or group.grant(key, consumer_id, claim.reg_epoch) is None:\n",
            "        if key is None:\n",
        ),
    ),
    without(
        "CB50",
        "A heartbeat without a list says that nothing is owned",
        Edit(
            _REPORTING,
            "    extend_lease(group.members[request.consumer_id], now_ms)\n    return ErrorCode.NONE\n",
            "    extend_lease(group.members[request.consumer_id], now_ms)\n"
            "    group.members[request.consumer_id].reported = ()\n    return ErrorCode.NONE\n",
        ),
    ),
    without(
        "CB51",
        "Who leaves keeps what it does not say to release",
        Edit(_MEMBERS, "    out.records.extend(map(group.owners.ended, rest))\n", ""),
    ),
    without(
        "CB52",
        "Who owns what is told as members reported it",
        Edit(
            _VIEWS,
            "        keys=tuple([group.key_of(entry) for entry in group.owners.of(member.consumer_id)]),\n",
            "        keys=tuple([one.key for one in member.reported or ()]),\n",
        ),
    ),
    without(
        "CB53",
        "After a restart nobody has a lease",
        Edit(_APPLYING, "        watch_lease(group, member, out)\n", "        member.heard_ms = 0\n"),
    ),
    without(
        "CB54",
        "A lease is five seconds shorter than the member was told",
        Edit(
            _GRANTS,
            "    deadline_ms = now_ms + member.session_timeout_ms\n",
            "    deadline_ms = now_ms + member.session_timeout_ms - 5_000\n",
        ),
    ),
    without(
        "CB58",
        "Who came after an operator's wish goes to the end, too",
        Edit(
            _REPORTING,
            "    return wanted if wanted > max(member.mark, request.ops_ack) else 0\n",
            "    return wanted if wanted > request.ops_ack else 0\n",
        ),
    ),
    without(
        "CB59",
        "A lag that nobody knows is 0",
        Edit(
            _VIEWS,
            "    if place is None:\n        return None\n",
            "    if place is None:\n        return 0\n",
        ),
    ),
)
