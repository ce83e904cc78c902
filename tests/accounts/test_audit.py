"""The audit trail: what a line has, and how repetitions fold."""

import json
from typing import Any

from coordinator.accounts.audit import FOLD_MS, MOST_A_SECOND, MOST_FOLDED, AuditEvent, AuditTrail
from coordinator.clock import Moment

WALL_MS = 1_700_000_000_000


def at(ms: int) -> Moment:
    return Moment(ms, WALL_MS + ms)


def taken(trail: AuditTrail) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trail.take()]


def test_repetitions_of_a_minute_are_one_line_more_with_their_number() -> None:
    trail = AuditTrail(is_on=True)
    for ms in range(0, 50_000, 1_000):
        trail.record(AuditEvent.REFUSED, at(ms), {"principal": "User:bob", "port": ms, "lacked": "READ on group g"})
        trail.tick(at(ms))
    trail.record(AuditEvent.REFUSED, at(50_000), {"principal": "User:eve", "lacked": "READ on group g"})
    first, other = taken(trail)
    assert first == {
        "time": "2023-11-14T22:13:20.000Z",
        "event": "refused",
        "principal": "User:bob",
        "port": 0,
        "lacked": "READ on group g",
    }
    assert other["principal"] == "User:eve"
    trail.tick(at(FOLD_MS))
    (folded,) = taken(trail)
    assert (folded["principal"], folded["repeated"]) == ("User:bob", 49)
    trail.record(AuditEvent.REFUSED, at(FOLD_MS + 1), {"principal": "User:bob", "lacked": "READ on group g"})
    assert len(taken(trail)) == 1
    trail.tick(at(FOLD_MS + 1), is_end=True)
    assert not taken(trail), "nothing was repeated since"


def test_a_flood_of_takeovers_is_counted() -> None:
    trail = AuditTrail(is_on=True)
    for number in range(MOST_A_SECOND + 5):
        trail.takeover(WALL_MS, {"instance": f"i{number}"})
    assert len(trail.take()) == MOST_A_SECOND
    trail.tick(at(1_000))
    assert [one["times"] for one in taken(trail)] == [5]
    trail.takeover(WALL_MS, {"instance": "i"})
    assert [one["event"] for one in taken(trail)] == ["takeover"]


def test_a_flood_of_different_events_is_counted_and_keeps_little() -> None:
    trail = AuditTrail(is_on=True)
    for number in range(3 * MOST_A_SECOND):
        trail.record(AuditEvent.LOGIN_FAILED, at(0), {"user": f"user {number}"})
    assert len(trail.take()) == MOST_A_SECOND
    trail.tick(at(1_000))
    assert taken(trail) == [{"time": "2023-11-14T22:13:21.000Z", "event": "left out", "times": 2 * MOST_A_SECOND}]
    for second in range(30):
        for number in range(MOST_A_SECOND):
            for _ in range(2):
                trail.record(AuditEvent.LOGIN_FAILED, at(2_000 + second), {"user": f"user {second} {number}"})
    assert len(trail._folded) <= MOST_FOLDED
    trail.administration(WALL_MS, {"principal": "User:root"}, "CreateAcls", ["change"] * 3_000)
    last = taken(trail)[-1]
    assert (last["event"], len(last["changes"]), last["more_changes"]) == ("administration", 1_000, 2_000)


def test_texts_of_clients_are_one_line_of_json_whatever_they_have() -> None:
    trail = AuditTrail(is_on=True)
    user = 'a\n{"event": "login"}\ud800' + "x" * 5_000
    trail.record(AuditEvent.LOGIN_FAILED, at(0), {"user": user, "empty": "", "host": "10.0.0.1"})
    (line,) = trail.take()
    assert line.count(b"\n") == 1 and line.endswith(b"}\n") and len(line) < 1_200
    assert json.loads(line)["user"].startswith('a\n{"event": "login"}?xxx') and "empty" not in json.loads(line)


def test_what_is_kept_of_the_last_minute_is_as_short_as_its_lines() -> None:
    trail = AuditTrail(is_on=True)
    for number in range(10):
        trail.record(AuditEvent.REFUSED, at(0), {"lacked": f"READ on group {number}" + "x" * 1_000_000})
    kept = [text for key in trail._folded for _, text in key] + [
        text for one in trail._folded.values() for text in one.fields.values()
    ]
    assert len(trail.take()) == 10 and sum(map(len, kept)) < 30_000


def test_a_trail_that_is_off_keeps_nothing() -> None:
    trail = AuditTrail()
    trail.record(AuditEvent.LOGIN, at(0), {"principal": "User:bob"})
    trail.administration(WALL_MS, {}, "CreateAcls", [])
    trail.tick(at(FOLD_MS), is_end=True)
    assert not trail.take() and not trail._folded
