"""Changes targets as statements change their source tables, and carries rows through statements."""
