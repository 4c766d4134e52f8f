"""`python -m towpath` is the command `towpath`."""

import sys

from towpath.cli import main

sys.exit(main())
