"""The former place of `towpath.lakehouse`, for programs that were written against a clone of 0.1. It goes with 0.3.

Its modules are the same objects under both names.
"""

import sys
import warnings
from importlib import import_module
from pkgutil import iter_modules

import towpath.lakehouse

warnings.warn("towpath.spark.lakehouse is towpath.lakehouse now", DeprecationWarning, stacklevel=2)
for _found in iter_modules(towpath.lakehouse.__path__):
    if _found.name != "job":  # it is new, and needs more packages
        sys.modules[f"{__name__}.{_found.name}"] = import_module(f"towpath.lakehouse.{_found.name}")
sys.modules[__name__] = towpath.lakehouse
