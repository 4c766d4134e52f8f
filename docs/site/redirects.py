"""Pages that lead from an old address of the site to the new one, with the heading after `#`."""

from pathlib import Path

DOCS = Path(__file__).parents[1]

REDIRECTS = {
    **{
        page.stem: f"{folder}/{page.stem}"
        for folder in ("dialects", "platforms")
        for page in (DOCS / folder).glob("*.md")
    },
    **{name: f"lakehouse/{name}" for name in ("job", "scale")},
    **{f"from-{name}": f"migrating/{name}" for name in ("debezium-smts", "flink-cdc", "from-json", "paimon")},
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
