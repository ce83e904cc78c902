"""Answer Measure: counts by group, and distributions of durations."""

from collections.abc import Iterator
from itertools import islice

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.core.timings import Durations
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.tallies import Tally
from coordinator.runtime.slices import Served, Work
from protocol.messages.node import GroupTally, Measure, MeasuredDurations, MeasureReply
from protocol.session import RequestRef

_GROUPS_A_PIECE, _PIECE_US = 500, 500


def measure(core: Core, ref: RequestRef, message: Measure, moment: Moment) -> None:
    """Answer with all counts; of groups those with the most rebalances, `limit` at most."""
    core.slices.begin(core.outbox, ref, _measuring(core, message), moment)


def _measuring(core: Core, message: Measure) -> Work:
    yield 0
    chosen = list(core.journal.tallies.groups.items())
    if len(chosen) > message.limit:
        chosen.sort(key=lambda one: -one[1].rebalances)
        del chosen[max(0, message.limit) :]
    found: list[GroupTally] = []
    left = iter(chosen)
    while some := list(islice(left, _GROUPS_A_PIECE)):
        found += [
            GroupTally(group_id, one.rebalances, one.takeovers, one.refusals, one.fenced_commits, _phases(one))
            for group_id, one in some
        ]
        yield _PIECE_US
    return Served(MeasureReply(tuple(found), tuple(_durations(core))))


def _phases(tally: Tally) -> dict[str, int]:
    """Return the time in each state that has lasted, by the state's name."""
    return {state.title: ms for state, ms in zip(GroupState, tally.phase_ms, strict=True) if ms}


def _durations(core: Core) -> Iterator[MeasuredDurations]:
    timings = core.timings
    requests = {kind.__name__: durations for kind, durations in timings.requests.items()}
    for api, durations in sorted(requests.items()):
        yield _shown("request", api, durations)
    yield _shown("sync", "", timings.syncs)
    yield _shown("loop lag", "", timings.loop_lag)


def _shown(what: str, api: str, durations: Durations) -> MeasuredDurations:
    return MeasuredDurations(what, api, tuple(durations.counts), durations.sum_ms)
