"""Keep reports of members in memory: what their applications say of themselves, and which of them are to drain."""

from typing import Final

from protocol.messages.groups import ReportedFact

MOST_KEPT: Final = 2_000
"""Members remembered; the one that reported longest ago is forgotten first."""


class MemberReport:
    """The last report of a member."""

    __slots__ = ("facts", "is_draining", "reported_ms")

    def __init__(self, facts: tuple[ReportedFact, ...], reported_ms: int, *, is_draining: bool = False) -> None:
        self.facts = facts
        self.reported_ms = reported_ms
        self.is_draining = is_draining


class MemberReports:
    """Reports by group and member, the latest last. Member ids are never used twice, so those of members that are gone
    do no harm until they are forgotten."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], MemberReport] = {}

    def put(self, group_id: str, member_id: str, facts: tuple[ReportedFact, ...], now_ms: int) -> MemberReport:
        """Replace a member's report, and return the new one."""
        before = self._kept.pop((group_id, member_id), None)
        report = MemberReport(facts, now_ms, is_draining=before is not None and before.is_draining)
        self._kept[group_id, member_id] = report
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return report

    def get(self, group_id: str, member_id: str) -> MemberReport | None:
        """Return the report of a member, if it has made one."""
        return self._kept.get((group_id, member_id))
