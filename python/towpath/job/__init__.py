"""The process `towpath replicate job.yml`: `towpath.spark.replicate` as a YAML file describes it."""
