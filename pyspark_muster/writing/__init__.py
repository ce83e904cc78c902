"""The sink `format("muster")`: rows become records of topics, with the columns of Spark's own Kafka sink."""
