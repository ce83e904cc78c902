"""Members of client-balanced groups: the scenarios of section 17 that are the client's."""

from tests.mutants.mutant import Edit, without

_DELIVERING = "muster/core/balancing/delivering.py"
_JOINING = "muster/core/balancing/joining.py"
_LEASE = "muster/core/balancing/lease.py"
_LEAVING = "muster/core/balancing/leaving.py"
_LOOP = "muster/core/balancing/loop.py"
_REGISTERING = "muster/core/balancing/registering.py"
_SHARES = "muster/core/balancing/shares.py"
_TARGETS = "muster/core/balancing/targets.py"

MUTANTS = (
    without(
        "CB1",
        "What a member connects is handed out only when its first heartbeat is due again",
        Edit(
            _REGISTERING,
            "        m.refused_ms.pop(key, None)\n        m.end(",
            "        m.refused_ms.pop(key, None)\n        m.idle.remove(held)\n"
            "        m.put_back(held, m.heartbeat_ms)\n        m.end(",
        ),
    ),
    without(
        "CB2",
        "The name of a topic may be as long as it likes",
        Edit(_TARGETS, "    if len(name) > MAX_TOPIC_CHARACTERS:\n", "    if len(name) > 1_000:\n"),
        Edit(_TARGETS, "    if not may_be_keyed(name):\n", "    if not may_be_keyed(name[:MAX_TOPIC_CHARACTERS]):\n"),
    ),
    without(
        "CB3",
        "A filter may be as long as it likes",
        Edit(_TARGETS, "        if len(one) > MAX_FILTER_LENGTH:\n", "        if len(one) > 1_000:\n"),
    ),
    without(
        "CB4",
        "Whether there can be such a node is left to the coordinator",
        Edit(
            _TARGETS,
            "    if source_count > 0 and not 0 <= node_id < source_count:\n",
            "    if source_count > 0 and node_id > 1_000:\n",
        ),
    ),
    without(
        "CB6",
        "A source count of 0 means that there is none",
        Edit(_TARGETS, "    if source_count == 0:\n", "    if source_count == -1_000:\n"),
    ),
    without(
        "CB7",
        "Starting a consumer that runs already is as good as starting it",
        Edit(
            _JOINING,
            '            return failure(Code.BAD_REQUEST, "this consumer is running: shut it down first")\n',
            "            return success()\n",
        ),
    ),
    without(
        "CB22",
        "What a heartbeat told of the metadata is enough to connect by",
        Edit(_REGISTERING, "    elif not m.has_meta or key not in m.meta:\n", "    elif key not in m.meta:\n"),
    ),
    without(
        "CB23",
        "Whether a partition can be subscribed to is left to the coordinator",
        Edit(_REGISTERING, "    elif not m.meta[key]:\n", "    elif m.meta[key] is None:\n"),
    ),
    without(
        "CB24",
        "A key that is none is looked for in the metadata",
        Edit(
            _REGISTERING,
            "    try:\n        parsed(event.key)\n    except ValueError as error:\n",
            "    try:\n        pass\n    except ValueError as error:\n",
        ),
    ),
    without(
        "CB26",
        "Who was refused asks again as soon as it likes",
        Edit(_REGISTERING, "            m.refused_ms[key] = m.now_ms\n", "            m.refused_ms[key] = -10_000\n"),
    ),
    without(
        "CB27",
        "What is given up is forgotten, and the coordinator is not told",
        Edit(
            _REGISTERING,
            "    coordinator.ask(m, lambda: UnregisterPartitions(m.group_id, m.consumer_id, m.member_epoch, (item,)), "
            "heard)\n",
            "    m.after(0, partial(_end_giving_back, m, key, operation))\n",
        ),
    ),
    without(
        "CB30",
        "What is owned is registered again when it is connected again",
        Edit(_REGISTERING, "    elif key in m.keys:\n", "    elif key in m.keys and event.offset < 0:\n"),
    ),
    without(
        "CB37",
        "A batch that nobody confirmed counts as consumed when its partition is given up",
        Edit(
            _REGISTERING,
            "            _unregister(m, m.keys[key], not m.config.rolls_back_unconfirmed, leaving.operation)\n",
            "            _unregister(m, m.keys[key], True, leaving.operation)\n",
        ),
    ),
    without(
        "CB38",
        "Who gives a partition up does not wait for its batch to be confirmed",
        Edit(
            _REGISTERING,
            "        m.leaving[key] = Leaving(m.now_ms + m.config.confirm_wait_ms, operation)\n",
            "        m.leaving[key] = Leaving(m.now_ms, operation)\n",
        ),
    ),
    without(
        "CB39",
        "The coordinator is told of what is given up, whether it was owned or not",
        Edit(
            _REGISTERING,
            "    held = m.keys.get(key)\n    if held is None:\n        _end_giving_back(m, key, operation)\n",
            "    held = m.keys.get(key)\n    if held is None:\n"
            "        line.ask(m, lambda: UnregisterPartitions(m.group_id, m.consumer_id, m.member_epoch, ()), "
            "lambda m, answer: None)\n"
            "        _end_giving_back(m, key, operation)\n",
        ),
    ),
    without(
        "CB40",
        "A context counts as long as its partition is owned",
        Edit(
            _DELIVERING,
            " is Use.HANDED and held.token == token else None\n",
            " is not Use.CONFIRMING else None\n",
        ),
        Edit(_DELIVERING, "    m.put_back(held, pause_ms)\n", "    held in m.idle or m.put_back(held, pause_ms)\n"),
    ),
    without(
        "CB41",
        "What was not consumed is confirmed like what was",
        Edit(
            _DELIVERING,
            "ConfirmItem(held.key, held.reg_epoch, event.consumed, held.next_offset if event.consumed else None)",
            "ConfirmItem(held.key, held.reg_epoch, True, held.next_offset)",
        ),
    ),
    without(
        "CB42",
        "A partition can be taken again before its batch is confirmed",
        Edit(
            _DELIVERING,
            "    m.end(reader.operation, success(fetched))\n",
            "    m.end(reader.operation, success(fetched))\n    m.idle.append(held)\n",
        ),
    ),
    without(
        "CB43",
        "Who reads without waiting waits for as long as others do",
        Edit(
            _DELIVERING,
            "(m.config.ready_wait_ms or m.config.ready_check_slice_ms)",
            "max(m.config.ready_wait_ms, 100)",
        ),
    ),
    without(
        "CB44",
        "Whether partitions are ready is looked at once, as in TubeMQ",
        Edit(
            _DELIVERING,
            "        elif not m.is_running or m.is_past(one.deadline_ms):\n",
            "        elif not m.is_running or m.is_past(one.deadline_ms - 750):\n",
        ),
    ),
    without(
        "CB45",
        "Shares are computed over what can be subscribed to at present",
        Edit(
            _LOOP,
            "    mine = share(list(meta), consumer.source_count() or 1, consumer.node_id() or 0)\n",
            "    there = [key for key in meta if meta[key]]\n"
            "    mine = share(there, consumer.source_count() or 1, consumer.node_id() or 0)\n",
        ),
    ),
    without(
        "CB46",
        "The first metadata are the last that a member looks at",
        Edit(
            _REGISTERING,
            "    m.meta = {one.key: one.subscribable for one in states}\n",
            "    m.meta = m.meta or {one.key: one.subscribable for one in states}\n",
        ),
    ),
    without(
        "CB47",
        "What is no longer configured is kept until the application gives it up",
        Edit(
            _REGISTERING,
            "        if not m.meta.get(key) and key not in m.leaving:\n",
            "        if not m.meta.get(key, True) and key not in m.leaving:\n",
        ),
    ),
    without(
        "CB55",
        "A lease counts from when the answer came, and is longer than the coordinator counts",
        Edit(
            _LEASE,
            "    m.lease_ends_ms = max(m.lease_ends_ms or 0, sent_ms + m.session_timeout_ms)\n",
            "    m.lease_ends_ms = m.now_ms + m.session_timeout_ms + 10_000\n",
        ),
    ),
    without(
        "CB56",
        "A member that joins again says nothing of what it holds",
        Edit(
            _JOINING,
            "        tuple(HeldKey(key, held.reg_epoch, held.confirmed) for key, held in m.keys.items()),\n",
            "        (),\n",
        ),
    ),
    without(
        "CB57",
        "A member that is refused when it joins again tries on and keeps what it had",
        Edit(_JOINING, "    elif answer.code in _REFUSED:\n", "    elif answer.code < 0:\n"),
    ),
    without(
        "CB60",
        "What was not confirmed counts as consumed when its consumer shuts down",
        Edit(
            _LEAVING,
            "    return not m.config.rolls_back_unconfirmed if use in IN_USE else last_consumed\n",
            "    return True\n",
        ),
    ),
    without(
        "CB61",
        "Shares go by Python's own hash of a text",
        Edit(
            _SHARES,
            "    return {key for key in keys if java_hash(key) % source_count == node_id}\n",
            "    return {key for key in keys if hash(key) % source_count == node_id}\n",
        ),
    ),
    without(
        "CB62",
        "The last runs are longer where keys do not divide evenly",
        Edit(
            _SHARES,
            "    start = each * node_id + min(node_id, extra)\n"
            "    return set(ordered[start : start + each + (node_id < extra)])\n",
            "    start = each * node_id\n"
            "    return set(ordered[start : start + each + extra * (node_id == source_count - 1)])\n",
        ),
    ),
)
