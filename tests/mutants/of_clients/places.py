"""Finding the coordinator, getting a place and keeping it: H1 to H16."""

from tests.mutants.mutant import Edit, without

_HEARTBEATS = "membership/heartbeats.py"
_JOINING = "membership/joining.py"
_MEMBERSHIP = "membership/core.py"
_NODES = "membership/nodes.py"

MUTANTS = (
    without(
        "H1",
        "A node that there is a connection to is asked no sooner than one that has never answered",
        Edit(_NODES, "            if node in self._connected:\n                return 0, waiting\n", ""),
    ),
    without(
        "H2",
        "How many requests a node has in flight does not count",
        Edit(_NODES, "                return 0, waiting\n", "                return 0, 0\n"),
    ),
    without(
        "H3",
        "A poll goes on for a second after its time is over",
        Edit("muster/client/consumer.py", "if is_done or left_s <= 0:", "if is_done or left_s <= -1:"),
    ),
    without(
        "H4",
        "Lookups that fail are repeated at the same distance for ever",
        Edit(
            "membership/channel.py",
            "now_ms + self._backoff_ms(self._lookup_failures)",
            "now_ms + self._backoff_ms(0)",
        ),
    ),
    without(
        "H5",
        "A coordinator that cannot be reached is not forgotten: the join goes there again",
        Edit(_JOINING, "        m.forget_coordinator()\n        _join_later(m)\n", "        _join_later(m)\n"),
    ),
    without(
        "H6",
        "After a lookup refused for good the next one follows by itself, without a poll",
        Edit("membership/member.py", "        if self.state is not State.LEAVING:\n            self.unjoin()\n", ""),
    ),
    without(
        "H7",
        "Each that needs the coordinator sends a lookup of its own",
        Edit(
            "membership/channel.py",
            " and self._pause_until_ms is None and not self.is_asking(FindCoordinator)",
            " and self._pause_until_ms is None",
        ),
    ),
    without(
        "H8",
        "A member that was given its id pauses before it joins under it",
        Edit(
            _JOINING,
            "        m.member_id = event.reply.member_id\n        m.join_again(m.rejoin)\n",
            "        m.member_id = event.reply.member_id\n        _join_later(m)\n",
        ),
    ),
    without(
        "H9",
        "A sync that meets a new rebalance costs the member its id",
        Edit(
            _JOINING,
            '        m.join_again("the group began to rebalance before the assignment came")\n',
            '        m.reset("the group began to rebalance", forget_id=True)\n        m.join_again(m.rejoin)\n',
        ),
    ),
    without(
        "H10",
        "A sync of a generation gone costs the member its id too",
        Edit(_JOINING, "forget_id=code == ErrorCode.UNKNOWN_MEMBER_ID)", "forget_id=True)"),
    ),
    without(
        "H11",
        "A member that the coordinator forgot joins anew, and its application is not told that it lost anything",
        Edit(
            _JOINING,
            "    if m.held:\n        m.state = State.RELEASING\n        m.lose()\n    elif m.topics:\n",
            "    if m.topics:\n",
        ),
    ),
    without(
        "H12",
        "A late answer about an older generation ends the present one",
        Edit(
            _HEARTBEATS,
            "        if m.is_current(event.sent):\n            fall_out(m, code, event.reason)\n",
            "        fall_out(m, code, event.reason)\n",
        ),
    ),
    without(
        "H13",
        "Heartbeats in a rebalance do not count: whoever does not poll soon is expelled",
        Edit(
            "coordinator/groups/classic/actions.py",
            "    extend_session(group, message, now_ms)\n    return ErrorCode.REBALANCE_IN_PROGRESS\n",
            "    return ErrorCode.REBALANCE_IN_PROGRESS\n",
        ),
    ),
    without(
        "H14",
        "A heartbeat answered by a node that is no coordinator goes to the same node again",
        Edit(_HEARTBEATS, "        m.forget_coordinator()\n        _beat_again(m)\n", "        _beat_again(m)\n"),
    ),
    without(
        "H15",
        "A coordinator that cannot be reached costs the member its generation",
        Edit(
            _HEARTBEATS,
            "        m.forget_coordinator()\n        _beat_again(m)\n",
            '        m.forget_coordinator()\n        m.reset("the coordinator is gone", forget_id=False)\n'
            "        m.unjoin()\n",
        ),
    ),
    without(
        "H16",
        "A fenced member joins again when it is polled, and fences its successor",
        Edit(
            _JOINING,
            "    if m.fenced:\n        m.fail(ErrorCode.FENCED_INSTANCE_ID, fenced(m))\n        return\n",
            "",
        ),
    ),
)
