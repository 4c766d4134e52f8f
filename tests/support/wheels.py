"""The wheels that `make wheel` has built."""

import pytest

from documents import ROOT

WHEELS = sorted((ROOT / "dist").glob("*.whl"))
needs_wheel = pytest.mark.skipif(not WHEELS, reason="there is no wheel in dist/: `make wheel` builds it")
