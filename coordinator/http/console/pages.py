"""Pages of the console: each gathers what its template shows."""

from typing import Any, Final

import msgspec

from coordinator.http.console import forms, views
from coordinator.http.console.history import History
from coordinator.http.console.movements import AssignmentChanges
from coordinator.http.console.timeline import rebalances
from coordinator.http.lag.partitions import longest_ms
from coordinator.http.lag.timed import TimedLags
from coordinator.http.overview import GroupFilter, look_over, wanted_of
from coordinator.http.queries import Problem, Queries
from coordinator.http.routing.route import PAGE_TOKEN, Names
from coordinator.http.surgery import SurgeryPages
from coordinator.http.watch import OpenProblems, Rest, examine
from coordinator.http.what_if import WhatIf
from diagnosis import people
from diagnosis.problem import GroupProblem
from protocol.messages.acls import AclOperation
from protocol.messages.balanced import CLIENT_BALANCED
from protocol.messages.groups import DescribedGroup

_NOTES: Final = 200
_LINES: Final = 200
"""Largest number of lines in a table without pages: a plan, or a topic's partitions."""
_TOPICS_A_PAGE: Final = 200
Context = dict[str, Any]


class ConsolePages:
    """Each method returns what a template shows."""

    def __init__(
        self,
        queries: Queries,
        problems: OpenProblems,
        surgery: SurgeryPages,
        what_if: WhatIf,
        timed_lags: TimedLags,
        rest: Rest,
    ) -> None:
        """`rest` lets the loop serve other requests."""
        self._ask, self._open, self._surgery, self._what_if, self.rest = queries, problems, surgery, what_if, rest
        self._timed_lags, self._movements, self._history = timed_lags, AssignmentChanges(), History()

    async def groups(self, query: Names) -> Context:
        wanted = wanted_of(query)
        seen = await look_over(self._ask, self._open, wanted, self.rest)
        return {
            "seen": seen,
            "wanted": wanted,
            "now_ms": seen.node.wall_ms,
            "in_trouble": len({one.group_id for one in seen.problems}),
            "previous": max(wanted.start - wanted.size, 0) if wanted.start else None,
            "following": wanted.start + wanted.size if wanted.start + wanted.size < seen.matching else None,
        }

    async def group(self, query: Names) -> Context:
        group_id = query.get("id", "")
        node = await self._ask.node()
        group = await self._described(group_id)
        notes = (await self._ask.notes(group_id, -1, _NOTES)).notes
        problems = await self._problems(group_id, group)
        lines = [] if group is None else await self._timed_lags.of(group)
        moved = {} if group is None else self._movements.see(group, notes)
        if group is None and not notes and not problems:
            raise Problem(40403, f"there is no consumer group {group_id!r}")
        if group is not None:
            self._history.see(group_id, node.wall_ms, lines)
        shown = group or DescribedGroup(group_id, group_state="Dead")
        known = [line.lag for line in lines if line.lag is not None]
        return {
            "group": shown,
            "may_change": _permits(shown, AclOperation.READ),
            "may_hold": group is not None
            and group.protocol_type != CLIENT_BALANCED
            and _permits(shown, AclOperation.ALTER_CONFIGS),
            "now_ms": node.wall_ms,
            "problems": problems,
            "phase": people.phase(shown),
            "waiting_for": people.waiting_for(shown),
            "held": people.hold(shown),
            "is_driven": shown.target_epoch >= 0,
            "members": views.member_rows(shown, lines),
            "assignments": views.assignment_rows(shown),
            "rebalances": rebalances(notes, shown, moved, node.wall_ms),
            "acts": views.act_rows(group_id, notes),
            "topics": views.topic_rows(lines),
            "lag": sum(known) if known or not lines else None,
            "behind_ms": longest_ms(line.lag_ms for line in lines),
            "targets": forms.TARGETS,
            "assignors": forms.ASSIGNORS,
        }

    async def history(self, query: Names) -> dict[str, Any]:
        """Take a sample, and return the recent ones."""
        group = await self._ask.group(query.get("id", ""))
        node = await self._ask.node()
        self._history.see(group.group_id, node.wall_ms, await self._ask.lags(group))
        return {"group_id": group.group_id, "samples": self._history.of(group.group_id)}

    async def topics(self, query: Names) -> Context:
        part, start = query.get("q", ""), PAGE_TOKEN.number(query)
        found = [one for one in (await self._ask.topology(topics=True)).topics if part in (one.name or "")]
        found.sort(key=lambda one: one.name or "")
        return {
            "topics": found[start : start + _TOPICS_A_PAGE],
            "matching": len(found),
            "q": part,
            "start": start,
            "previous": max(start - _TOPICS_A_PAGE, 0) if start else None,
            "following": start + _TOPICS_A_PAGE if start + _TOPICS_A_PAGE < len(found) else None,
        }

    async def topic(self, query: Names) -> Context:
        name, start = query.get("name", ""), PAGE_TOKEN.number(query)
        topic = await self._ask.topic(name)
        if topic is None:
            raise Problem(40403, f"there is no topic {name[:80]!r}")
        chosen = topic.partitions[start : start + _LINES]
        keys = [(name, part.partition_index) for part in chosen]
        begins, ends = await self._ask.begins(keys), await self._ask.ends(keys)
        lines = [
            (part, begin.offset if (begin := begins.get(key)) else None, end.offset if (end := ends.get(key)) else None)
            for part, key in zip(chosen, keys, strict=True)
        ]
        return {
            "topic": topic,
            "lines": lines,
            "readers": sorted((await self._ask.readers(name)).items()),
            "start": start,
            "previous": max(start - _LINES, 0) if start else None,
            "following": start + _LINES if start + _LINES < len(topic.partitions) else None,
        }

    async def node(self, query: Names) -> Context:
        node = await self._ask.node()
        return {"node": node, "now_ms": node.wall_ms, "brokers": (await self._ask.topology()).brokers}

    async def plan(self, query: Names, form: forms.PlanForm, host: str) -> Context:
        """Plan a change of offsets; nothing is changed."""
        group_id = query.get("id", "")
        group = await self._ask.group(group_id)
        request = forms.plan_request(form, (await self._ask.node()).wall_ms)
        answer = await self._surgery.plan({"group": group_id}, msgspec.json.encode(request), host)
        changed = [one for one in answer["plan"] if one["previous_offset"] != one["offset"]]
        both = [one for one in changed if one["lag_before"] is not None and one["lag_after"] is not None]
        moves = [one["lag_after"] - one["lag_before"] for one in both]
        return {
            "group": group,
            "plan": changed[:_LINES],
            "changed": len(changed),
            "unchanged": len(answer["plan"]) - len(changed),
            "again": sum(move for move in moves if move > 0),
            "skipped": -sum(move for move in moves if move < 0),
            "body": msgspec.json.encode({"plan": changed}).decode(),
        }

    async def apply(self, query: Names, form: forms.ApplyForm, host: str) -> Context:
        """Apply the plan, if all offsets are as planned."""
        return {"done": await self._surgery.apply({"group": query.get("id", "")}, form.plan.encode(), host)}

    async def undo(self, query: Names, form: forms.UndoForm, host: str) -> Context:
        """Undo a change of offsets."""
        return {"done": await self._surgery.undo({"id": form.id}, b"", host)}

    async def hold(self, query: Names, form: forms.HoldForm, host: str) -> Context:
        """Hold the group, or release it."""
        body = msgspec.json.encode(forms.hold_request(form))
        return {"held": await self._surgery.hold({"group": query.get("id", "")}, body, host)}

    async def what_if(self, query: Names) -> Context:
        """Compute the assignment after a change of the group; nothing is changed."""
        change = forms.group_change(query)
        outlook = await self._what_if.outlook(query.get("id", ""), change)
        group = await self._ask.group(query.get("id", ""), with_facts=True)
        return views.outlook_context(group, outlook)

    async def _described(self, group_id: str) -> DescribedGroup | None:
        try:
            return await self._ask.group(group_id, with_facts=True, with_operations=True)
        except Problem as problem:
            if problem.status != 404:
                raise
            return None

    async def _problems(self, group_id: str, group: DescribedGroup | None) -> list[GroupProblem]:
        if group is not None:
            return self._open.continued(await examine(self._ask, self.rest, [group_id], self._open.remembered))
        return [one for one in await self._open.shown_to(self._ask) if one.group_id == group_id]


def _permits(group: DescribedGroup, operation: AclOperation) -> bool:
    """Return whether the caller has the permission; true if the group has no authorized operations, since there are no
    access rules then."""
    told = group.authorized_operations
    return told < 0 or bool(told & 1 << operation)


__all__ = ["ConsolePages", "Context", "GroupFilter"]
