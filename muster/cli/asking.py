"""Servers that the command sends requests to, and its connections."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, NamedTuple

import typer

from muster.admin.asking import Complaint, topology
from muster.blocking.cluster import ClusterClient, expect
from muster.errors import Refused
from muster.net.bootstrap import parse_bootstrap
from muster.net.dialects import ClientDialect
from muster.net.security import Security
from protocol.errors import ErrorCode
from protocol.messages.node import DescribeNode, DescribeNodeReply

DEFAULT_BOOTSTRAP = "127.0.0.1:9390"
NAMED: Final = "muster.cli.named"
"""Key in the context for the names in the arguments (`group`, `groups` or `topic`), which JSON documents of failures
include."""
_UNREACHED = "no broker of the cluster was reached yet: "

Bootstrap = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address of musterd, as before the command.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document for scripts.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Comma-separated values for spreadsheets.")]


class Servers(NamedTuple):
    """The bootstrap servers and their connection settings; Kafka brokers behind musterd may have other settings."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    security: Security | None = None
    broker_security: Security | None = None


class ActRefused(Complaint):
    """A change that was refused: the group has members, the plan is stale, or it is not permitted."""


def servers(ctx: typer.Context, bootstrap: str | None) -> Servers:
    """Return the servers from the options before and after the command's name."""
    said: Servers = ctx.obj
    return said._replace(bootstrap=bootstrap) if bootstrap else said


def is_musterd(ctx: typer.Context, bootstrap: str | None) -> bool:
    """Return true if the address is one of musterd's own protocol, which reports more than a Kafka broker."""
    return parse_bootstrap(servers(ctx, bootstrap).bootstrap).dialect is ClientDialect.NATIVE


@contextmanager
def reaching(ctx: typer.Context, bootstrap: str | None) -> Iterator[ClusterClient]:
    """Open a client for the nodes behind `--bootstrap`, and close it at the end. An invalid address is a usage
    error."""
    ctx.meta[NAMED] = _named(ctx)
    with reaching_servers(servers(ctx, bootstrap), "--bootstrap") as cluster:
        yield cluster


def _named(ctx: typer.Context) -> dict[str, object]:
    is_of_topics = ctx.parent is not None and ctx.parent.info_name == "topics"
    named = {one: ctx.params[one] for one in ("group", "groups", "topic") if ctx.params.get(one)}
    if len(named.get("groups", ())) == 1:
        named = {"group": named["groups"][0]}
    return named | ({"topic": ctx.params["name"]} if is_of_topics and "name" in ctx.params else {})


@contextmanager
def administering(ctx: typer.Context, bootstrap: str | None, not_permitted: str) -> Iterator[ClusterClient]:
    """Same as `reaching`. Raises ActRefused with the sentence `not_permitted` if the cluster's access rules refuse a
    request.
    """
    with reaching(ctx, bootstrap) as cluster:
        try:
            yield cluster
        except Refused as refused:
            if refused.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise ActRefused(not_permitted) from None
            raise


@contextmanager
def reaching_topics(ctx: typer.Context, bootstrap: str | None) -> Iterator[ClusterClient]:
    """Same as `reaching`, for commands about topics. Raises Complaint if musterd is in front of a Kafka cluster that it
    has never reached: it knows no topics then, which would look as if there were none.
    """
    with reaching(ctx, bootstrap) as cluster:
        if parse_bootstrap(servers(ctx, bootstrap).bootstrap).dialect is ClientDialect.NATIVE:
            node = describe_node(cluster)
            if node is not None:
                _refuse_unreached(node)
        else:
            topology(cluster, topics=False)  # fails at once if no node answers
        yield cluster


def describe_node(cluster: ClusterClient) -> DescribeNodeReply | None:
    """Request the node's description. Returns None if access rules permit the user only topics and groups."""
    try:
        return expect(DescribeNodeReply, cluster.ask(DescribeNode()))
    except Refused as refused:
        if refused.error_code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return None


def _refuse_unreached(node: DescribeNodeReply) -> None:
    if node.gauges.get("upstream_reachable") == 0 and not node.gauges.get("upstream_brokers"):
        why = node.upstream_problem.removeprefix(_UNREACHED) or "it has just been asked"
        raise Complaint(f"musterd has not reached its Kafka cluster yet: {why}")


@contextmanager
def reaching_servers(where: Servers, hint: str) -> Iterator[ClusterClient]:
    """Same as `reaching`; `hint` names the option with the address."""
    _check_files("", where.security)
    _check_files("broker.", where.broker_security)
    try:
        parse_bootstrap(where.bootstrap, None, where.security, where.broker_security)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None
    cluster = ClusterClient(
        where.bootstrap, client_id="muster-cli", security=where.security, broker_security=where.broker_security
    )
    try:
        yield cluster
    finally:
        cluster.close()


def _check_files(prefix: str, security: Security | None) -> None:
    """Raise a usage error, with the setting's name, for a file that cannot be read."""
    try:
        if security is not None:
            security.context()
    except ValueError as error:
        is_ours = security is not None and security.certificate_location and "a certificate and its key" in str(error)
        name = f"{prefix}ssl.certificate.location" if is_ours else f"{prefix}ssl.ca.location"
        raise typer.BadParameter(str(error), param_hint=name) from None
