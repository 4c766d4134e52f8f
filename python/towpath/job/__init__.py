"""The process `towpath replicate job.yml`: runs `towpath.spark.replicate` from a YAML file."""
