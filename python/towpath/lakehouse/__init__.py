"""Delta and Iceberg tables that follow source tables: `apply_changes` for one table, `replicate` for whole topics.

`towpath.spark` exports the public functions, and uses nothing else in this package.
"""
