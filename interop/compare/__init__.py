"""The same requests to Apache Kafka and to musterd, in every version both speak, and what they answer otherwise."""
