"""Forms of the console as requests of the HTTP interface. Pure."""

import re
from datetime import UTC, datetime
from typing import Final

import msgspec

from coordinator.http.queries import Problem
from coordinator.http.routing.route import Names
from coordinator.http.surgery import HoldRequest, PlanRequest
from membership.outlook import GroupChange, parse_partitions

_INVALID: Final = 40002
_DURATION: Final = re.compile(r"\s*([0-9]{1,9})\s*([smhd])\s*")
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
TARGETS: Final = (
    ("earliest", "the start of each log", ""),
    ("latest", "the end of each log", ""),
    ("shift", "forward or back by", "records, such as -100"),
    ("offset", "this offset", "a whole number"),
    ("ago", "where it was written this long ago", "a duration, such as 30m or 2h"),
    ("time", "the first record since (UTC)", "a time, such as 2026-11-23 05:00"),
    ("group", "where another group is", "the group's id"),
)
"""Targets of an offset reset: the name in the form, the name on the page, and the meaning of the value."""


ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform")
"""Assignors for which a change can be computed."""


class PlanForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form of a plan. `topic`: one of the group's topics; empty: all."""

    target: str
    value: str = ""
    topic: str = ""


class ApplyForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form that confirms a plan: the plan's answer as JSON."""

    plan: str


class UndoForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form that undoes a change, by its id."""

    id: str


class HoldForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form that holds a group for a duration or, if that is not empty, until so many members have joined; 0s
    releases it."""

    duration: str
    until_members: str = ""


class LoginForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form of a login: a user and a password, or a token."""

    user: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"LoginForm(user={self.user!r}, hidden)"


def credentials(form: LoginForm) -> tuple[str | None, str]:
    """Return the user and the password, or no user and the token. Raises Problem if there is neither."""
    if form.token.strip() and not (form.user or form.password):
        return None, form.token.strip()
    if form.user and form.password:
        return form.user, form.password
    raise Problem(_INVALID, "a user and a password are wanted, or a token alone")


def plan_request(form: PlanForm, now_ms: int) -> PlanRequest:
    """Return the request of a form. Raises Problem for an invalid value."""
    topics: dict[str, list[int] | None] | None = {form.topic: None} if form.topic else None
    value = form.value.strip()
    match form.target:
        case "earliest":
            return PlanRequest(topics, to_earliest=True)
        case "latest":
            return PlanRequest(topics, to_latest=True)
        case "shift":
            return PlanRequest(topics, shift_by=_whole(value))
        case "offset":
            return PlanRequest(topics, to_offset=_whole(value))
        case "ago":
            return PlanRequest(topics, to_time_ms=now_ms - _duration_ms(value))
        case "time":
            return PlanRequest(topics, to_time_ms=_time_ms(value))
        case "group" if value:
            return PlanRequest(topics, of_group=value)
    raise Problem(_INVALID, "say where to: a group's id is missing" if form.target == "group" else "say where to")


def hold_request(form: HoldForm) -> HoldRequest:
    """Return the request of a form. Raises Problem for an invalid value."""
    return HoldRequest(_duration_ms(form.duration), _whole(form.until_members.strip() or "0"))


def group_change(query: Names) -> GroupChange:
    """Return the change in a form. Raises Problem for an invalid value."""
    more, grown = query.get("members", "").strip(), query.get("partitions", "").strip()
    if grown and not query.get("topic"):
        raise Problem(_INVALID, "say which topic grows")
    text = f"{query['topic']}={_whole(grown)}" if grown else ""
    try:
        return GroupChange(_whole(more or "0"), parse_partitions(text), query.get("assignor", ""))
    except ValueError as error:
        raise Problem(_INVALID, str(error)) from None


def _whole(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    raise Problem(_INVALID, f"a whole number is wanted, not {text[:40]!r}")


def _duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise Problem(_INVALID, f"a duration is a number with s, m, h or d, such as 30m, not {text[:40]!r}")
    return int(found[1]) * _UNITS_MS[found[2]]


def _time_ms(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Problem(_INVALID, f"a time is like 2026-11-23 05:00, not {text[:40]!r}") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1_000)
