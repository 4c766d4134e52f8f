"""Tables of Delta and Iceberg, and the targets of source tables."""
