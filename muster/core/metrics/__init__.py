"""Metrics of clients, without I/O, by Kafka's names.

`MeasuredCore` times the requests of a core and passes the times to an observer; the observers `ConsumerMetrics` and
`ProducerMetrics` keep `Measurements`. They cost a few additions for each request, and nothing for each record; means
and rates are computed when they are read.
"""
