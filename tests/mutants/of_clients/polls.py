"""Polling: H46 to H57."""

from tests.mutants.mutant import Edit, without

_BUFFER = "muster/core/fetching/buffer.py"
_CONSUMER = "muster/client/consumer.py"
_FETCHER = "muster/core/fetching/fetcher.py"

_LATE_ANSWERS = (
    Edit(
        _FETCHER,
        "        if position.offset != asked.number or position.state is not PositionState.FETCHING:\n",
        "        if position.state is not PositionState.FETCHING:\n",
    ),
    Edit(_BUFFER, "        return position.offset != completed.offset\n", "        return False\n"),
)
"""Tests of the position of an answer, which is checked when it comes and when it is handed out."""

MUTANTS = (
    without(
        "H46",
        "A poll waits before it looks what is there",
        Edit(
            _CONSUMER,
            "            is_done = self._consuming.take(",
            "            yield Wait(0.1)\n            is_done = self._consuming.take(",
        ),
    ),
    without(
        "H47",
        "A poll that waits does not look before its time is over",
        Edit(
            _CONSUMER,
            "        return Wait(min(left_s, self._consuming.patience_s(self._driver.now_ms())))\n",
            "        from muster.client.steps import WaitUntil\n\n        return WaitUntil(lambda: False, left_s)\n",
        ),
    ),
    without(
        "H48",
        "A poll that hands out records leaves it to the next to ask for more",
        Edit(
            _CONSUMER,
            "under way while the application works.\n            self._look()\n",
            "under way while the application works.\n            if not is_done:\n                self._look()\n",
        ),
    ),
    without(
        "H49",
        "A partition is fetched while records of it wait to be handed out",
        Edit(_FETCHER, "if leader is None or one in buffered or position", "if leader is None or position"),
    ),
    without(
        "H50",
        "Each partition is fetched by a request of its own",
        Edit(
            _FETCHER,
            "        for node, wanted in self._wanted({node for node, kind in busy if kind is Fetch}).items():\n",
            "        for node, wanted in [\n"
            "            (node, {one: asked})\n"
            "            for node, them in self._wanted({node for node, kind in busy if kind is Fetch}).items()\n"
            "            for one, asked in them.items()\n"
            "        ]:\n",
        ),
    ),
    without(
        "H51",
        "A node that owes an answer is asked again",
        Edit(_FETCHER, "            if node in busy or self._quiet_until_ms", "            if self._quiet_until_ms"),
    ),
    without(
        "H52",
        "The next fetch begins where the one before began",
        Edit(
            _BUFFER,
            "        position.offset, position.offset_epoch = completed.offset, completed.epoch\n",
            "",
        ),
    ),
    without("H53", "What an old leader answers late is handed out once more", *_LATE_ANSWERS),
    without("H54", "The answer to a fetch from before a seek is handed out after it", *_LATE_ANSWERS),
    without(
        "H55",
        "What is buffered from before a seek is handed out after it",
        _LATE_ANSWERS[1],
    ),
    without(
        "H56",
        "What is buffered of a paused partition is thrown away",
        Edit(
            _BUFFER,
            "                    aside.append(self._completed.popleft())\n",
            "                    self._completed.popleft()\n",
        ),
    ),
    without(
        "H57",
        "What is buffered of a partition taken away is handed out",
        Edit(
            _BUFFER,
            "        if self._subscription.at(completed.partition) is not position:\n            return True\n",
            "",
        ),
    ),
)
