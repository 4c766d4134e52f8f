"""Pages that lead from an old address of the site to the new one, with the heading after `#`."""

from pathlib import Path

DIALECTS = (
    "canal-json",
    "canal-protobuf",
    "cloudcanal-json",
    "dataworks-json",
    "debezium-avro",
    "debezium-json",
    "dms-json",
    "dts-avro",
    "maxwell-json",
    "postgresql",
    "river-json",
    "ticdc-avro",
    "ticdc-open",
    "ticdc-simple",
)

REDIRECTS = {
    **{name: f"dialects/{name}" for name in DIALECTS},
    **{name: f"lakehouse/{name}" for name in ("job", "scale")},
    **{f"from-{name}": f"migrating/{name}" for name in ("debezium-smts", "flink-cdc", "from-json", "paimon")},
    **{name: f"platforms/{name}" for name in ("cluster", "databricks", "emr", "glue", "kubernetes", "yarn")},
    **{name: f"spark/{name}" for name in ("auto-cdc", "kafka", "source", "tuning")},
}
"""Old and new path of each page that was moved."""

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>This page was moved</title>
<link rel="canonical" href="../{new}/">
<script>location.replace("../{new}/" + location.hash)</script>
<meta http-equiv="refresh" content="0; url=../{new}/">
<a href="../{new}/">This page was moved</a>
"""


def write_redirects(site: Path) -> None:
    """Write a page at each old address into the folder of the built site."""
    for old, new in REDIRECTS.items():
        (site / old).mkdir()
        (site / old / "index.html").write_text(PAGE.format(new=new), encoding="utf-8")
