"""Delta and Iceberg tables that follow the source's: `apply_changes` for one table, `replicate` for whole topics.

The rest of `towpath.spark` does not depend on this package; it only exports the public functions.
"""
