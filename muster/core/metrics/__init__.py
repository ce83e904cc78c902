"""Metrics of clients, without I/O, by Kafka's names.

`MeasuredCore` times the requests of a core and passes the times to an observer; the observers `ConsumerMetrics` and
`ProducerMetrics` keep `Measurements`. They cost a few additions for each request, and nothing for each record; means
and rates are computed when they are read.
"""

from typing import TYPE_CHECKING

from muster._on_demand import names_on_demand

if TYPE_CHECKING:
    from muster.core.metrics.consumer import ConsumerMetrics
    from muster.core.metrics.measured import MeasuredCore
    from muster.core.metrics.producer import ProducerMetrics
else:
    __getattr__ = names_on_demand(
        globals(),
        {
            "muster.core.metrics.consumer": "ConsumerMetrics",
            "muster.core.metrics.measured": "MeasuredCore",
            "muster.core.metrics.producer": "ProducerMetrics",
        },
    )

__all__ = ["ConsumerMetrics", "MeasuredCore", "ProducerMetrics"]
