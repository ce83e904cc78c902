"""`muster groups owners GROUP`: the owner of each partition, and its grant."""

from typing import Annotated

import msgspec
import typer

from muster.admin.asking import describe_ownership
from muster.cli.asking import AsJson, Bootstrap, reaching
from muster.cli.showing import local_time, show_json, show_table, utc_time


def owners(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show the owner of each partition of a group, by the ownership registry.

    Members of groups with streams claim what they are assigned before they read it, and those of client-balanced
    groups what they choose. Other groups have no registry: their assignment is in `muster groups describe`.
    """
    with reaching(ctx, bootstrap) as cluster:
        found = describe_ownership(cluster, group)
    if as_json:
        show_json([msgspec.structs.asdict(one) | {"since": utc_time(one.since_ms)} for one in found])
    elif found:
        show_table(
            ("TOPIC", "PARTITION", "MEMBER", "THREAD", "EPOCH", "SINCE"),
            (
                (
                    one.topic,
                    one.partition,
                    one.member_id,
                    one.thread if one.thread >= 0 else None,
                    one.epoch,
                    local_time(one.since_ms),
                )
                for one in found
            ),
        )
    else:
        print("Nobody owns a partition by the registry. What a group has assigned: `muster groups describe GROUP`.")
