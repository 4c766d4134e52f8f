"""The Kafka input of the data source `towpath`: topics that Python workers fetch and decode, see `docs/kafka.md`."""
