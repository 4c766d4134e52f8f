"""For all tests."""

import os

from spark_cluster import QUICK_START

# The JVMs of the programs that tests start end soon, too.
os.environ["SPARK_SUBMIT_OPTS"] = QUICK_START
