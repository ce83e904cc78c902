"""A source that makes a Spark query an ordinary member of a group, and a sink.

    stream = spark.readStream.format("muster").option("bootstrap", "127.0.0.1:9390")
    flights = stream.option("group", "delays").option("topics", "flights").load()

Spark finds it by its name: modules called `pyspark_*` with a `DefaultSource` register themselves, under classic
PySpark, Spark Connect and Declarative Pipelines alike. Rows have the columns of Spark's own Kafka source: `key`,
`value`, `topic`, `partition`, `offset`, `timestamp`. Options are the fields of `pyspark_muster.options.Options`, in
camel case.

`df.write.format("muster")` and `df.writeStream.format("muster")` append rows to topics.

Delivery is at least once to any sink, and once to a sink keyed by (topic, partition, offset). Only stateless processing
is supported: state that Spark keeps for a partition does not follow it to another member.
"""

from muster._installation import check_installation

check_installation(__file__)

from typing import TYPE_CHECKING  # noqa: E402  (after the check it would trip over)

from muster._on_demand import names_on_demand  # noqa: E402

if TYPE_CHECKING:
    from pyspark_muster.listener import guard
    from pyspark_muster.reports import progress
    from pyspark_muster.source import DefaultSource, MusterDataSource
else:
    __getattr__ = names_on_demand(
        globals(),
        {
            "pyspark_muster.listener": "guard",
            "pyspark_muster.reports": "progress",
            "pyspark_muster.source": "DefaultSource MusterDataSource",
        },
    )

__all__ = ["DefaultSource", "MusterDataSource", "guard", "progress"]
