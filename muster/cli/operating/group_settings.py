"""`muster groups alter`: a group's own settings; `pin` and `unpin`: whether its committed offsets expire."""

from typing import Annotated, Final

import typer

from muster.blocking.cluster import ClusterClient
from muster.cli.asking import ActRefused, Bootstrap, reaching
from muster.cli.settings import setting_changes
from muster.cli.showing import printable
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.words import counted

PINNED: Final = "group.offsets.pinned"


def pin(
    ctx: typer.Context, group: Annotated[str, typer.Argument(metavar="GROUP")], bootstrap: Bootstrap = None
) -> None:
    """Keep the committed offsets of a group from expiring, until it is unpinned. It need not exist yet."""
    _change(ctx, group, bootstrap, AlterableConfig(PINNED, ConfigOperation.SET, "true"))
    print(printable(f"Offsets of {group} do not expire."))


def unpin(
    ctx: typer.Context, group: Annotated[str, typer.Argument(metavar="GROUP")], bootstrap: Bootstrap = None
) -> None:
    """Let the committed offsets of a group expire as those of others do."""
    _change(ctx, group, bootstrap, AlterableConfig(PINNED, ConfigOperation.DELETE))
    print(printable(f"Offsets of {group} expire as those of other groups: `muster offsets expiring` says when."))


def alter(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    configs: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="As group.offsets.backward=rejected; repeatable."),
    ] = None,
    resets: Annotated[
        list[str] | None, typer.Option("--reset", metavar="KEY", help="Back to the server's; repeatable.")
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Change settings of a group, which override the server's. The group need not exist yet."""
    changes = setting_changes(configs, resets)
    if not changes:
        raise typer.BadParameter("say what: --config KEY=VALUE or --reset KEY")
    _change(ctx, group, bootstrap, *changes)
    print(printable(f"Changed {counted(len(changes), 'setting')} of group {group}."))


def _change(ctx: typer.Context, group: str, bootstrap: str | None, *changes: AlterableConfig) -> None:
    resource = AlterConfigsResource(ResourceType.GROUP, group, changes)
    with reaching(ctx, bootstrap) as cluster:
        _check_keys(cluster, group, [one.name for one in changes if one.config_operation == ConfigOperation.DELETE])
        asked = IncrementalAlterConfigs((resource,))
        reply = cluster.ask_coordinator(IncrementalAlterConfigsReply, group, asked)
    altered = reply.responses[0]
    if altered.error_code:
        raise ActRefused(f"group {group!r}: {altered.error_message or altered.error_code.name}")


def _check_keys(cluster: ClusterClient, group: str, resets: list[str]) -> None:
    """Refuse to reset unknown settings, which servers report as done; if the server does not report its settings, it
    decides."""
    if not resets:
        return
    asked = DescribeConfigs((DescribeConfigsResource(ResourceType.GROUP, group),))
    (described,) = cluster.ask_coordinator(DescribeConfigsReply, group, asked).results
    known = [config.name for config in described.configs]
    wrong = [key for key in resets if key not in known]
    if wrong and not described.error_code:
        raise ActRefused(f"group {group!r}: {wrong[0]} is no setting of a group; there are {', '.join(known)}")
