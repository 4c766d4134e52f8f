"""Changes targets as statements change their tables, and carries rows through statements."""
