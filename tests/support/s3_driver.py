"""The driver of test_object_stores.py: writes tables in an S3 both ways. Its own process, as it needs more jars.

It prints, as JSON, for each way the rows of each table and what made their versions.
"""

import json
import sys
from pathlib import Path

from lake_session import lake_session, lake_settings
from object_store import BUCKET, ObjectStore
from server_process import jars
from stored_tables import replicated


def main(folder):
    with ObjectStore(folder) as store:
        own_jars = ",".join(map(str, [*jars("spark"), *jars("s3")]))
        settings = {**lake_settings(folder), **store.hadoop, "spark.jars": own_jars}
        spark = lake_session(folder, settings)
        found = {}
        for way in ("spark", "auto", "task"):
            found[way] = replicated(spark, f"s3a://{BUCKET}/{way}", way, store.storage_options)
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
