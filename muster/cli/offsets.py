"""`muster offsets expiring GROUP`: the committed offsets that expire, and when."""

from typing import Annotated, Any

import typer

from muster.admin.asking import describe_expiry
from muster.cli.asking import AsJson, Bootstrap, reaching
from muster.cli.showing import local_time, printable, show_facts, show_json, show_table, utc_time
from protocol.messages.offsets import DescribeExpiryReply, ExpiringOffset

app = typer.Typer(no_args_is_help=True)

_DAY_MS, _HOUR_MS, _MINUTE_MS = 86_400_000, 3_600_000, 60_000


@app.callback()
def _root() -> None:
    """Callback without effect, so that the name of the only command must be given."""


@app.command()
def expiring(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show when the committed offsets of a group expire, or why they stay.

    Offsets that are due are deleted at the next run, and an Empty group with its last offset.
    """
    with reaching(ctx, bootstrap) as cluster:
        answer, offsets = describe_expiry(cluster, group)
    if as_json:
        show_json(_document(group, answer, offsets))
    else:
        _show(group, answer, offsets)


def _document(group: str, answer: DescribeExpiryReply, offsets: list[ExpiringOffset]) -> dict[str, Any]:
    return {
        "group_id": group,
        "state": answer.group_state,
        "retention_ms": answer.retention_ms,
        "next_run": utc_time(answer.next_run_ms),
        "group_expires": _utc(answer.group_expires_ms),
        "group_kept_because": answer.group_kept_because or None,
        "offsets": [
            {
                "topic": one.topic,
                "partition": one.partition_index,
                "committed_offset": one.committed_offset if one.committed_offset >= 0 else None,
                "committed_at": _utc(one.commit_timestamp_ms),
                "expires": _utc(one.expires_ms),
                "kept_because": one.kept_because or None,
            }
            for one in offsets
        ],
    }


def _show(group: str, answer: DescribeExpiryReply, offsets: list[ExpiringOffset]) -> None:
    def when(expires_ms: int, kept_because: str) -> str:
        if kept_because:
            return f"kept: {kept_because}"
        return "at the next run" if expires_ms <= answer.next_run_ms else _local(expires_ms)

    show_facts(
        [
            ("Group", group),
            ("State", answer.group_state),
            ("Retention", _duration(answer.retention_ms)),
            ("Next run", local_time(answer.next_run_ms)),
            ("The group goes", when(answer.group_expires_ms, answer.group_kept_because)),
        ]
    )
    if offsets:
        print()
        rows = [
            (
                one.topic,
                one.partition_index,
                one.committed_offset if one.committed_offset >= 0 else None,
                _local(one.commit_timestamp_ms) if one.commit_timestamp_ms >= 0 else None,
                when(one.expires_ms, one.kept_because),
            )
            for one in offsets
        ]
        show_table(("TOPIC", "PARTITION", "COMMITTED", "COMMITTED AT", "EXPIRES"), rows)
    print(f"\nWhat has expired already: muster explain {printable(group)}")


def _utc(wall_ms: int) -> str | None:
    """Format a wall time; None for no time, and for times out of range, since a client may request any retention."""
    return _dated(utc_time, wall_ms) if wall_ms >= 0 else None


def _local(wall_ms: int) -> str:
    return _dated(local_time, wall_ms) or "in thousands of years"


def _dated(show: Any, wall_ms: int) -> str | None:
    try:
        return str(show(wall_ms))
    except (ValueError, OverflowError, OSError):
        return None


def _duration(ms: int) -> str:
    """`7 d`, `90 min`."""
    for unit_ms, unit in ((_DAY_MS, "d"), (_HOUR_MS, "h"), (_MINUTE_MS, "min")):
        if ms >= unit_ms and ms % unit_ms == 0:
            return f"{ms // unit_ms} {unit}"
    return f"{ms} ms"
