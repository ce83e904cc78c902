"""Fetch sessions: H65 to H70."""

from tests.mutants.mutant import Edit, without

_SESSIONS = "muster/core/fetching/sessions.py"

MUTANTS = (
    without(
        "H65",
        "An incremental request names what has not changed",
        Edit(
            _SESSIONS,
            "changed = {one: asked for one, asked in wanted.items() if self._partitions.get(one) != asked}",
            "changed = dict(wanted)",
        ),
    ),
    without(
        "H66",
        "An incremental request does not say what is no longer wanted",
        Edit(
            _SESSIONS,
            "        forgotten = tuple(one for one in self._partitions if one not in wanted)\n",
            "        forgotten = ()\n",
        ),
    ),
    without(
        "H67",
        "A session that the node has forgotten is named again",
        Edit(
            _SESSIONS,
            "                self._id = NO_SESSION\n            self._epoch = FULL\n            return False\n",
            "                pass\n            self._epoch = FULL\n            return False\n",
        ),
    ),
    without(
        "H68",
        "A request refused for its epoch is repeated as it was",
        Edit(
            _SESSIONS,
            "                self._id = NO_SESSION\n            self._epoch = FULL\n            return False\n",
            "                self._id = NO_SESSION\n                self._epoch = FULL\n            return False\n",
        ),
    ),
    without(
        "H69",
        "A node that keeps no session is asked as if it kept one",
        Edit(
            _SESSIONS,
            "        if session_id == NO_SESSION or not self._is_wanted:\n",
            "        if not self._is_wanted:\n",
        ),
    ),
    without(
        "H70",
        "Closing leaves its sessions to the nodes",
        Edit("muster/core/fetching/fetcher.py", "            if final is not None:\n", "            if False:\n"),
    ),
)
