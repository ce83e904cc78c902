"""Callbacks and rebalances: H17 to H29."""

from tests.mutants.mutant import Edit, without

_CONSUMER = "muster/client/consumer.py"
_GROUP_MEMBER = "muster/client/member.py"
_JOINING = "membership/joining.py"

MUTANTS = (
    without(
        "H17",
        "Each poll of a join under way joins anew",
        Edit(
            _JOINING,
            "def note_poll(m: MemberState, _event: Polled) -> None:\n",
            "def note_poll(m: MemberState, _event: Polled) -> None:\n    m.stop_asking(JoinGroup)\n",
        ),
    ),
    without(
        "H18",
        "What `on_assigned` raises keeps its partitions from being read, though they are assigned",
        Edit(
            _CONSUMER,
            "        finally:\n            self._consuming.subscription.callback",
            "        except Exception:\n            raise\n        else:\n"
            "            self._consuming.subscription.callback",
        ),
    ),
    without(
        "H19",
        "An `on_assigned` that a wakeup interrupts counts as called",
        Edit(
            _GROUP_MEMBER,
            "                    self._told.add_again(effect)\n                    raise\n",
            "                    raise\n",
        ),
    ),
    without(
        "H20",
        "A member of an eager group keeps what it has while it joins",
        Edit(
            _JOINING,
            "    if unwanted or not m.settings.is_cooperative or not m.topics:\n",
            "    if unwanted or not m.topics:\n",
        ),
    ),
    without(
        "H21",
        "A member that holds nothing is not told that an eager rebalance takes it away",
        Edit(
            _JOINING,
            "    if unwanted or not m.settings.is_cooperative or not m.topics:\n",
            "    if unwanted or (m.held and not m.settings.is_cooperative) or not m.topics:\n",
        ),
    ),
    without(
        "H22",
        "A cooperative rebalance that takes something away takes everything away",
        Edit(_JOINING, "        m.revoke(taken_away)\n", "        m.revoke(m.held)\n"),
    ),
    without(
        "H23",
        "A cooperative rebalance that moves nothing revokes it all the same",
        Edit(_JOINING, "    if taken_away:\n", "    if True:\n"),
    ),
    without(
        "H24",
        "Partitions of a topic no longer subscribed to are joined with",
        Edit(
            _JOINING,
            "    unwanted = tuple(one for one in m.held if one.topic not in m.topics)\n",
            "    unwanted = ()\n",
        ),
    ),
    without(
        "H25",
        "An assignment is taken over whatever it names",
        Edit(_JOINING, "    if not all(m.accepts(one.topic) for one in given):\n", "    if False:\n"),
    ),
    without(
        "H26",
        "A leader that sees a topic grow leaves it at that",
        Edit(
            "membership/leader.py",
            "        if m.watched is not None and counts != m.watched and not m.rejoin:\n",
            "        if False:\n",
        ),
    ),
    without(
        "H27",
        "Whoever subscribed to a pattern joins without looking which topics there are",
        Edit(
            "membership/subscription.py",
            "    if m.pattern is not None and (m.looked_at_ms is None",
            "    if False and (True",
        ),
    ),
    without(
        "H28",
        "A follower accepts only topics that it has heard of itself",
        Edit(
            "membership/member.py",
            "        return topic in self.topics or self.matches(topic)\n",
            "        return topic in self.topics\n",
        ),
    ),
    without(
        "H29",
        "Whoever subscribed in one way may go on in another",
        Edit(
            "muster/core/consumer_state.py",
            "        if self.kind not in {SubscriptionKind.NOTHING, kind}:\n",
            "        if False:\n",
        ),
    ),
)
