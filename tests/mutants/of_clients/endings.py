"""Staying out, closing, threads: H40 to H45."""

from tests.mutants.mutant import Edit, without

_JOINING = "membership/joining.py"
_ONE_USER = "muster/blocking/guard.py"

MUTANTS = (
    without(
        "H40",
        "A member that is not polled for too long gives its place up and tells nobody",
        Edit(
            "membership/heartbeats.py",
            "    leave_quietly(m)\n    m.reset(m.rejoin, forget_id=True)\n",
            "    m.reset(m.rejoin, forget_id=True)\n",
        ),
    ),
    without(
        "H41",
        "A static member leaves the group like any other",
        Edit(_JOINING, "    if m.is_static or not m.member_id or m.coord", "    if not m.member_id or m.coord"),
    ),
    without(
        "H42",
        "Partitions are revoked without a last commit",
        Edit("muster/core/completions.py", "            self._awaited = prepare(partitions)\n", ""),
    ),
    without(
        "H43",
        "Closing takes half a minute whatever time it is given",
        Edit(
            "muster/client/member.py",
            "        deadline = self._driver.time() + timeout_s\n        self.tell(Closing())\n",
            "        deadline = self._driver.time() + 30\n        self.tell(Closing())\n",
        ),
    ),
    without(
        "H44",
        "A client that was closed goes on",
        Edit(
            _ONE_USER,
            '            if self.is_closed:\n                raise ClientClosed(f"this {self._what} was closed")\n',
            "",
        ),
    ),
    without(
        "H45",
        "A second thread is let in",
        Edit(_ONE_USER, "            if self._user not in {None, me}:\n", "            if False:\n"),
    ),
)
