"""Former name of `towpath.lakehouse`, for programs written against a clone of 0.1. It will be removed in 0.3.

Both names give the same module objects.
"""

import sys
import warnings
from importlib import import_module
from pkgutil import walk_packages

import towpath.lakehouse

warnings.warn("towpath.spark.lakehouse is deprecated; use towpath.lakehouse", DeprecationWarning, stacklevel=2)
for _found in walk_packages(towpath.lakehouse.__path__, "towpath.lakehouse."):  # packages before their modules
    sys.modules[f"{__name__}.{_found.name.rpartition('.')[2]}"] = import_module(_found.name)
sys.modules[__name__] = towpath.lakehouse
