"""The sink `format("muster")`: rows become records of topics, by the columns of Spark's own Kafka sink."""
