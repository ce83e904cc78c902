"""`muster-consumer-groups`: Kafka's `kafka-consumer-groups`, with its arguments and columns.

A failure ends with exit code 1; Kafka's tool prints it and ends with 0."""

import sys
from argparse import Namespace
from contextlib import closing

import typer

from muster.admin.asking import Complaint
from muster.blocking.cluster import ClusterClient
from muster.cli.config import read_servers
from muster.cli.operating.kafka_tool.arguments import BadArgument, parse
from muster.cli.operating.kafka_tool.deleting import delete, delete_offsets
from muster.cli.operating.kafka_tool.describing import describe
from muster.cli.operating.kafka_tool.errors import JAVA
from muster.cli.operating.kafka_tool.listing import consumer_groups, show_groups
from muster.cli.operating.kafka_tool.patterns import why_invalid
from muster.cli.operating.kafka_tool.resetting import reset
from muster.cli.operating.kafka_tool.timed_cluster import TimedCluster
from muster.cli.showing import INTERRUPTED, forget_stdout
from muster.errors import MusterError, RequestTimedOut

_LONGEST_MS = 2**31 - 1
"""Largest `--timeout` that is used, as in Kafka."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command; the process ends with 0, or with 1 if something was refused."""
    try:
        ended = _carry_out(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
        ended = 0
    except KeyboardInterrupt:
        ended = INTERRUPTED
    sys.exit(ended)


def _carry_out(arguments: list[str] | None) -> int:
    """Return 0, or 1 if something was refused."""
    try:
        parsed = parse(arguments)
        if parsed.validate_regex is not None:
            return _validate(parsed.validate_regex)
        servers = read_servers(f"kafka://{parsed.bootstrap_server}", parsed.command_config)
        with closing(TimedCluster(servers, min(max(0, parsed.timeout), _LONGEST_MS) / 1000)) as cluster:
            return 0 if _run(cluster, parsed) else 1
    except RequestTimedOut as late:
        return _failed(f"{JAVA}TimeoutException: {late}")
    except (MusterError, Complaint, BadArgument, typer.BadParameter, ValueError) as error:
        return _failed(str(error))


def _failed(why: str) -> int:
    print(f"\nError: Executing consumer group command failed due to {why}")
    return 1


def _validate(regex: str) -> int:
    """Print whether a coordinator takes the expression."""
    why = why_invalid(regex)
    print(f"The regular expression `{regex}` is " + ("valid." if why is None else f"invalid: {why}."))
    return 0 if why is None else 1


def _run(cluster: ClusterClient, parsed: Namespace) -> bool:
    """Run the action; return true if nothing was refused."""
    if parsed.list:
        show_groups(cluster, parsed)
        return True
    group_ids = parsed.group or [group.group_id for group in consumer_groups(cluster)]
    if parsed.describe:
        return describe(cluster, parsed, group_ids)
    if parsed.delete:
        return delete(cluster, group_ids)
    if parsed.delete_offsets:
        return delete_offsets(cluster, group_ids[0], parsed.topic)
    return reset(cluster, parsed, group_ids)
