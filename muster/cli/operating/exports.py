"""`muster groups export` and `muster groups import`: committed offsets as a file."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Final

import typer

from diagnosis.offset_plan import PlannedOffset, Target
from muster.admin.asking import Complaint, committed_offsets, describe_group
from muster.blocking.cluster import ClusterClient
from muster.cli.asking import ActRefused, AsJson, Bootstrap, reaching
from muster.cli.operating.carrying_out import carry_out, show_plan
from muster.cli.operating.offset_targets import check_all_planned, now_ms, plan_offsets
from muster.cli.operating.surgery import Execute
from muster.cli.showing import utc_time

_EXPORT_FORMAT: Final = 1


def export(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    bootstrap: Bootstrap = None,
) -> None:
    """Write the committed offsets of a group as JSON lines with a checksum, for `muster groups import`."""
    with reaching(ctx, bootstrap) as cluster:
        describe_group(cluster, group)
        committed = committed_offsets(cluster, group)
    head = {"group_id": group, "format": _EXPORT_FORMAT, "exported_at": utc_time(now_ms())}
    lines = [json.dumps(head)] + [
        json.dumps({"topic": one.topic, "partition": one.partition, "offset": offset})
        for one, offset in sorted(committed.items())
    ]
    print("\n".join([*lines, json.dumps({"count": len(committed), "sha256": _checksum(lines)})]))


def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    group: Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Default: the exported group.")] = None,
    execute: Execute = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Set the committed offsets of a group to those of an export. They are read back afterwards."""
    exported, offsets = _read_export(file)
    wanted = group or exported
    with reaching(ctx, bootstrap) as cluster:
        planned = plan_offsets(cluster, wanted, Target(offsets=offsets), (), all_topics=True)
        check_all_planned(planned, offsets)
        done = carry_out(ctx, cluster, bootstrap, wanted, planned, "import") if execute else None
        if execute:
            _check_read_back(cluster, wanted, planned)
    show_plan(wanted, planned, done, execute=execute, as_json=as_json)


def _check_read_back(cluster: ClusterClient, group: str, planned: list[PlannedOffset]) -> None:
    now = {(one.topic, one.partition): offset for one, offset in committed_offsets(cluster, group).items()}
    wrong = [one for one in planned if now.get((one.topic, one.partition)) != one.offset]
    if wrong:
        raise ActRefused(f"{len(wrong)} offsets read back are others, as {wrong[0].topic}-{wrong[0].partition}")


def _checksum(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _read_export(path: Path) -> tuple[str, dict[tuple[str, int], int]]:
    try:
        lines = path.read_text().splitlines()
        head, *entries, foot = [json.loads(line) for line in lines]
        if foot["sha256"] != _checksum(lines[:-1]) or foot["count"] != len(entries):
            raise Complaint(f"{path} is damaged or was edited: its checksum does not hold")
        return str(head["group_id"]), {(one["topic"], one["partition"]): one["offset"] for one in entries}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Complaint(f"{path} is no export of `muster groups export`: {error}") from None
