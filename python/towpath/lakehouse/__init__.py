"""Delta and Iceberg tables that follow the source's: `apply_changes` for one table, `replicate` for whole topics.

`towpath.spark` exports the public functions, and depends on nothing else of this package.
"""
