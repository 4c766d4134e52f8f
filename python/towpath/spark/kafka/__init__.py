"""Kafka input of the data source `towpath`: Python workers fetch and decode topics, see `docs/spark/kafka.md`."""
