"""`python -m towpath.replicate job.yml` is `towpath replicate job.yml`; `spark-submit` takes this file as a program."""

import sys

from towpath.cli import main

if __name__ == "__main__":
    sys.exit(main(["replicate", *sys.argv[1:]]))
