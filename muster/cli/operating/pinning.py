"""`muster groups pin` and `unpin`: whether committed offsets of a group expire."""

from typing import Annotated, Final

import typer

from muster.blocking.cluster import expect
from muster.cli.asking import ActRefused, Bootstrap, reaching
from muster.cli.showing import printable
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)

PINNED: Final = "group.offsets.pinned"


def pin(
    ctx: typer.Context, group: Annotated[str, typer.Argument(metavar="GROUP")], bootstrap: Bootstrap = None
) -> None:
    """Keep the committed offsets of a group from expiring, until it is unpinned. It need not exist yet."""
    _set(ctx, group, bootstrap, "true")
    print(printable(f"Offsets of {group} do not expire."))


def unpin(
    ctx: typer.Context, group: Annotated[str, typer.Argument(metavar="GROUP")], bootstrap: Bootstrap = None
) -> None:
    """Let the committed offsets of a group expire as those of others do."""
    _set(ctx, group, bootstrap, None)
    print(printable(f"Offsets of {group} expire as those of other groups: `muster offsets expiring` says when."))


def _set(ctx: typer.Context, group: str, bootstrap: str | None, value: str | None) -> None:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = AlterConfigsResource(ResourceType.GROUP, group, (AlterableConfig(PINNED, operation, value),))
    with reaching(ctx, bootstrap) as cluster:
        reply = expect(IncrementalAlterConfigsReply, cluster.ask(IncrementalAlterConfigs((change,))))
    altered = reply.responses[0]
    if altered.error_code:
        raise ActRefused(f"group {group!r}: {altered.error_message or altered.error_code.name}")
