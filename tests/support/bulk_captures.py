"""The captures that are too large for the repository."""

import pytest

from fidelity import ROOT

SHARED = ROOT.parent / "shared" / "captures"

bulk = pytest.mark.skipif(not SHARED.is_dir(), reason="the bulk captures are not next to this checkout")
