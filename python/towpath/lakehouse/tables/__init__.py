"""Delta and Iceberg tables, and the targets of source tables."""
