"""Queries of a test's topics, with Spark's Kafka source or with towpath's, and topics of numbered messages."""


def source(spark, kafka, format="towpath", stream=False, **given):
    """A reader that returns Spark's columns of Kafka's messages."""
    reader = (spark.readStream if stream else spark.read).format(format)
    layout = {"layout": "messages"} if format == "towpath" else {}
    return reader.options(**{"kafka.bootstrap.servers": kafka.bootstrap, **layout, **given}).load()


def values(frame):
    """The values by partition, in the order of their offsets."""
    rows = sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))
    found = {}
    for row in rows:
        found.setdefault(row.partition, []).append(row.value and bytes(row.value))
    return found


def numbered(count, partitions=1, start=0):
    """Messages to produce: `count` numbers from `start`, in turn in each partition."""
    return [(None, b"%d" % number, number % partitions) for number in range(start, start + count)]


def numbers(frame):
    return sorted(int(row.value) for row in frame.collect())


def fill(kafka, topic, count=30, partitions=3, **settings):
    kafka.create_topic(topic, partitions, **settings)
    return kafka.produce(topic, numbered(count, partitions))


EVERY = {"processingTime": "100 milliseconds"}


def started(frame, folder, name="table", **trigger):
    """A query that appends to a Parquet table; without a trigger, of what is there now."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / f"{name}.checkpoint"))
    return writer.trigger(**(trigger or {"availableNow": True})).start(str(folder / name))


def finished(frame, folder, name="table", **trigger):
    query = started(frame, folder, name, **trigger)
    query.processAllAvailable() if trigger else query.awaitTermination(600)
    query.stop()
    return query


def table(spark, folder, name="table"):
    return spark.read.parquet(str(folder / name))
