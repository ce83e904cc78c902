"""Positions, resets and broken records: H58 to H64."""

from tests.mutants.mutant import Edit, without

_BUFFER = "muster/core/fetching/buffer.py"
_FETCHER = "muster/core/fetching/fetcher.py"
_QUESTIONS = "muster/core/fetching/questions.py"
_RECORDS = "muster/core/fetching/records.py"

MUTANTS = (
    without(
        "H58",
        "A position out of range goes on at the beginning whatever the policy",
        Edit(
            _FETCHER,
            "            position.await_reset(self._settings.reset)\n",
            "            position.await_reset(OffsetReset.EARLIEST)\n",
        ),
    ),
    without(
        "H59",
        "A position out of range counts also if it was sought away from",
        Edit(
            _FETCHER,
            "        if position.offset != asked.number or position.state is not PositionState.FETCHING:\n",
            "        if position.state is not PositionState.FETCHING:\n",
        ),
    ),
    without(
        "H60",
        "Without a committed offset reading begins at the beginning whatever the policy",
        Edit(
            "muster/core/positions.py",
            "                self._positions[one].await_reset(reset)\n",
            "                self._positions[one].await_reset(OffsetReset.EARLIEST)\n",
        ),
    ),
    without(
        "H61",
        "The answer to a reset is applied though the application has sought elsewhere",
        Edit(
            _QUESTIONS,
            "        return self._subscription.at(one) is position and _timestamp(position) == question.number\n",
            "        return self._subscription.at(one) is position\n",
        ),
        Edit(
            _QUESTIONS,
            "                elif position.state is PositionState.AWAIT_RESET:\n",
            "                elif True:\n",
        ),
    ),
    without(
        "H62",
        "The position stays before control records, which are fetched again and again",
        Edit(
            _RECORDS,
            "                self.offset = self._end_of_batch = max(self.offset, header.next_offset)\n",
            "",
        ),
    ),
    without(
        "H63",
        "A record that cannot be read is passed over in silence, with those after it",
        Edit(_RECORDS, "        self.error, self._failure = self._failure, None\n", "        self._failure = None\n"),
    ),
    without(
        "H64",
        "An error that records of others have passed is forgotten",
        Edit(_BUFFER, "            self._completed.extendleft(reversed(postponed))\n", ""),
    ),
)
