"""`muster topics list`, `describe NAME`, `create NAME`, `alter NAME` and `delete NAME`."""

from typing import Annotated

import typer

from membership.nodes import nodes_of
from membership.topic_partition import TopicPartition
from muster.admin.asking import NotFound, list_topics, topology
from muster.admin.ends import ends_of
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient, expect
from muster.cli.asking import AsJson, Bootstrap, reaching_topics
from muster.cli.ends import oldest
from muster.cli.settings import setting_changes
from muster.cli.showing import printable, show_facts, show_json, show_table
from muster.errors import Refused
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterConfigsResource,
    ConfigSource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    DescribedConfig,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    DeleteTopicsReply,
    GrowingTopic,
    TopicConfig,
)
from protocol.words import counted

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_command(ctx: typer.Context, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """All topics."""
    with reaching_topics(ctx, bootstrap) as cluster:
        found = list_topics(cluster)
    if as_json:
        show_json([{"name": t.name, "partitions": len(t.partitions), "topic_id": t.topic_id.hex()} for t in found])
    elif found:
        show_table(("TOPIC", "PARTITIONS"), ((topic.name, len(topic.partitions)) for topic in found))
    else:
        print("There are no topics yet: `muster topics create NAME --partitions N` makes one.")


@app.command()
def describe(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show a topic's settings that differ from the server's, and of its partitions the nodes, first and last offsets.

    --json has all settings; they are left out where the server does not tell them.
    """
    with reaching_topics(ctx, bootstrap) as cluster:
        found = [topic for topic in list_topics(cluster) if topic.name == name]
        if not found:
            raise NotFound(f"there is no topic {name!r}: see `muster topics list`")
        (topic,) = found
        nodes = nodes_of(topology(cluster, topics=False))
        parts = sorted(topic.partitions, key=lambda part: part.partition_index)
        ones = [TopicPartition(name, part.partition_index) for part in parts]
        begins, ends = ends_of(cluster, ones, EARLIEST), ends_of(cluster, ones, LATEST)
        settings = _settings(cluster, name)
    lines = [
        {
            "partition": part.partition_index,
            "leader": part.leader_id if part.leader_id >= 0 else None,
            "address": f"{at.host}:{at.port}" if (at := nodes.get(part.leader_id)) else None,
            "begin_offset": begins[one].offset if one in begins else None,
            "end_offset": ends[one].offset if one in ends else None,
            "end_age_ms": ends[one].age_ms if one in ends else None,
        }
        for part, one in zip(parts, ones, strict=True)
    ]
    if as_json:
        document = {"name": name, "topic_id": topic.topic_id.hex(), "partitions": lines}
        show_json(document | {"settings": None if settings is None else {one.name: one.value for one in settings}})
        return
    facts: list[tuple[str, object]] = [("Topic", name), ("Id", topic.topic_id.hex())]
    if (age := oldest(lines)) is not None:
        facts.append(("Ends", age))
    own = [one for one in settings or () if one.config_source == ConfigSource.DYNAMIC_TOPIC]
    facts += [("Settings", " ".join(f"{one.name}={one.value}" for one in own) or "as the server's")] if settings else []
    show_facts(facts)
    print()
    show_table(
        ("PARTITION", "LEADER", "ADDRESS", "BEGIN", "END"),
        ((one["partition"], one["leader"], one["address"], one["begin_offset"], one["end_offset"]) for one in lines),
    )


def _settings(cluster: ClusterClient, name: str) -> list[DescribedConfig] | None:
    """Return the settings of the topic; None if the server does not report them."""
    wanted = DescribeConfigs((DescribeConfigsResource(ResourceType.TOPIC, name),))
    (described,) = expect(DescribeConfigsReply, cluster.ask(wanted)).results
    return None if described.error_code else list(described.configs)


@app.command()
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    partitions: Annotated[int, typer.Option(min=-1, show_default="the server's num.partitions", help="How many.")] = -1,
    configs: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="A setting, as cleanup.policy=compact; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Make a topic."""
    settings = tuple(TopicConfig(one.name, one.value) for one in setting_changes(configs))
    with reaching_topics(ctx, bootstrap) as cluster:
        wanted = CreateTopics((CreatableTopic(name, partitions, configs=settings),))
        made = expect(CreateTopicsReply, cluster.ask(wanted)).topics[0]
    if made.error_code is ErrorCode.TOPIC_ALREADY_EXISTS:
        raise Refused(made.error_code, f"there is a topic {name!r} already")
    if made.error_code:
        why = made.error_message or made.error_code.name
        raise Refused(made.error_code, f"topic {name!r} was not made: {why}")
    if as_json:
        show_json({"name": made.name, "partitions": made.num_partitions, "topic_id": made.topic_id.hex()})
    else:
        print(f"Made topic {made.name} with {counted(made.num_partitions, 'partition')}.")


@app.command()
def alter(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    configs: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="A setting, as retention.ms=60000; repeatable."),
    ] = None,
    resets: Annotated[
        list[str] | None, typer.Option("--reset", metavar="KEY", help="Back to the default; repeatable.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="New number of partitions, above the present one.")
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Change settings of a topic, or add partitions."""
    changes = setting_changes(configs, resets)
    if not changes and partitions is None:
        raise typer.BadParameter("say what: --config KEY=VALUE, --reset KEY or --partitions N")
    with reaching_topics(ctx, bootstrap) as cluster:
        if changes:
            resource = AlterConfigsResource(ResourceType.TOPIC, name, changes)
            asked = expect(IncrementalAlterConfigsReply, cluster.ask(IncrementalAlterConfigs((resource,))))
            _refuse(name, asked.responses[0].error_code, asked.responses[0].error_message)
            print(f"Changed {counted(len(changes), 'setting')} of topic {printable(name)}.")
        if partitions is not None:
            grown = expect(CreatePartitionsReply, cluster.ask(CreatePartitions((GrowingTopic(name, partitions),))))
            _refuse(name, grown.results[0].error_code, grown.results[0].error_message)
            print(f"Topic {printable(name)} has {counted(partitions, 'partition')}.")


def _refuse(name: str, code: ErrorCode, why: str | None) -> None:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise NotFound(f"there is no topic {name!r}: see `muster topics list`")
    if code:
        raise Refused(code, f"topic {name!r} was not changed: {why or code.name}")


@app.command()
def delete(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    bootstrap: Bootstrap = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a topic, its records, and what any group has committed for it. There is no way back.

    Beside brokers, what was committed goes later: after upstream.topic.deleted.after.ms of musterd.
    """
    if not yes:
        question = f"Delete topic {name}, its records, and all offsets committed for it (beside brokers, these later)?"
        typer.confirm(question, abort=True)
    with reaching_topics(ctx, bootstrap) as cluster:
        gone = expect(DeleteTopicsReply, cluster.ask(DeleteTopics((DeletableTopic(name),)))).responses[0]
    if gone.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Refused(gone.error_code, f"there is no topic {name!r}")
    if gone.error_code:
        raise Refused(gone.error_code, f"topic {name!r} was not deleted: {gone.error_message or gone.error_code.name}")
    print(f"Deleted topic {name}.")
