"""What a driver in its own process prints of its query, and how it ends the query."""

import time

from pyspark.sql.streaming import StreamingQuery


def print_batches(query: StreamingQuery) -> None:
    """Print the number of each finished batch until the query ends."""
    said = -1
    while query.isActive:
        progress = query.lastProgress
        if progress and progress["batchId"] != said:
            said = progress["batchId"]
            print(f"batch {said} is done", flush=True)
        time.sleep(0.1)
    query.awaitTermination()
    print("finished", flush=True)


def stop_at_the_end(query: StreamingQuery) -> None:
    """Stop it when it has processed everything; it fails by itself."""
    query.processAllAvailable()
    query.stop()
