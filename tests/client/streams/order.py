"""The order of a rebalance (docs/spec/consumer-client.md#E3, #E4.V9): the steps that may follow each step of one
connector."""

from collections.abc import Iterable

from tests.client.streams.rig import Happened

_RUNNING = {"start", "Fetch", "OffsetCommit", "handed out"}
MAY_FOLLOW: dict[str, set[str]] = {
    "stop": {*_RUNNING, "before_starting", "clear", "JoinGroup", "ClaimPartitions", ""},
    "clear": {"stop"},
    "before_releasing": {"clear", "OffsetCommit"},
    "ReleasePartitions": {"before_releasing", "end", "OffsetCommit"},
    "JoinGroup": {"", "JoinGroup", "before_releasing", "ReleasePartitions", "ClaimPartitions", "clear"},
    "ClaimPartitions": {"JoinGroup", "ClaimPartitions"},
    "publish": {"JoinGroup", "ClaimPartitions"},
    "before_starting": {"publish"},
    "start": {"before_starting"},
    "Fetch": _RUNNING,
    "handed out": _RUNNING,
    "OffsetCommit": {*_RUNNING, "clear", "end"},
}
"""A connector that has a listener; "" is the beginning. The end of the streams, "end", may come at any time."""
GIVEN_UP_MS = 2_000
"""Half of the shortest rebalance timeout in these tests: a commit before a release is waited for that long."""


def check_order(log: Iterable[Happened]) -> int:
    """Count the rebalances in the log of one connector. Raises AssertionError for a step out of order. A commit that
    waited for a coordinator until it was given up may still be sent before the release."""
    last, ended, cleared_ms, rebalances = Happened(0, "", ""), False, 0, 0
    steps = [one for one in log if one.what in MAY_FOLLOW or one.what == "end"]
    for one, after in zip(steps, [*steps[1:], None], strict=False):
        if one.what == "Fetch" and not one.about.topics:
            continue  # gives a fetch session back
        if one.what == "end" or (one.what == "stop" and after is not None and after.what == "end"):
            ended = True  # the application shuts it down, whatever it is at
        elif ended:
            assert one.what in {"OffsetCommit", "ReleasePartitions"}, one
        elif (last.what, one.what) == ("before_releasing", "OffsetCommit"):
            assert last.at_ms - cleared_ms >= GIVEN_UP_MS, (last, one)
        else:
            assert last.what in MAY_FOLLOW[one.what], (last, one)
        cleared_ms = one.at_ms if one.what == "clear" else cleared_ms
        rebalances += one.what == "before_releasing"
        last = one
    return rebalances
