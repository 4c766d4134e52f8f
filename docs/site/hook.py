"""Adds pages to the site: from the code, from files of other folders that pages link to, and redirects."""

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

SITE = Path(__file__).parent
ROOT = SITE.parents[1]
sys.path.insert(0, str(SITE))

import redirects  # noqa: E402
import reference  # noqa: E402

import towpath  # noqa: E402

MOVED = {
    "../README.md": "index.md",
    "../CHANGELOG.md": "changelog.md",
    "../benches/RESULTS.md": "results.md",
    "../examples": "examples.md",
    "../examples/auto_cdc": "examples.md#autocdc",
    "../examples/job.yml": "examples.md#job",
    "../examples/kafka_to_delta.py": "examples.md#kafka-to-delta",
    "../examples/quickstart.ipynb": "notebook.md",
}
"""Links of pages out of `docs/`, and where they lead on the site."""

EXAMPLES = {
    "Kafka to Delta": ("python", ["examples/kafka_to_delta.py"]),
    "AutoCDC": (
        "python",
        ["examples/auto_cdc/messages.py", "examples/auto_cdc/spark-pipeline.yml", "examples/auto_cdc/transformations"],
    ),
    "Job": ("yaml", ["examples/job.yml"]),
    "Demo": ("python", ["examples/demo.py"]),
}


def on_config(config: MkDocsConfig) -> None:
    """Name the version in the header."""
    config.site_name = f"{config.site_name} {towpath.__version__}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "columns.md": reference.columns_page(),
        "parameters.md": reference.parameters_page(),
        "examples.md": _examples(),
        "notebook.md": _notebook(ROOT / "examples" / "quickstart.ipynb"),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "results.md": (ROOT / "benches" / "RESULTS.md").read_text(encoding="utf-8"),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for plot in sorted((ROOT / "benches" / "plots").glob("*.svg")):
        files.append(File.generated(config, f"plots/{plot.name}", abs_src_path=str(plot)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let links out of `docs/` lead to pages of the site."""
    folder = posixpath.dirname(page.file.src_uri)

    def on_site(link: re.Match[str]) -> str:
        target = MOVED.get(posixpath.normpath(posixpath.join(folder, link[1])))
        return f"]({posixpath.relpath(target, folder)})" if target else link[0]

    return re.sub(r"\]\((\.\./[^)]+)\)", on_site, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Keep the old addresses."""
    redirects.write_redirects(Path(config.site_dir))


def _examples() -> str:
    parts = [(ROOT / "examples" / "README.md").read_text(encoding="utf-8")]
    for title, (language, paths) in EXAMPLES.items():
        parts.append(f"## {title}\n")
        for file in (file for path in paths for file in _files(ROOT / path)):
            text = file.read_text(encoding="utf-8")
            kind = {".yml": "yaml", ".ipynb": "json"}.get(file.suffix, language)
            parts.append(f"`{file.relative_to(ROOT)}`\n\n````{kind}\n{text}````\n")
    return "\n".join(parts)


def _notebook(path: Path) -> str:
    """The cells of a notebook, with the outputs that are stored in it."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    """A plot, a table, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f"![plot](data:image/png;base64,{''.join(data['image/png'].split())})"
    if "text/html" in data:
        table = re.search(r"<table.*?</table>", "".join(data["text/html"]), re.DOTALL)
        return re.sub(r"<table[^>]*>", "<table>", table[0]) if table else ""
    return f"```text\n{''.join(output.get('text', data.get('text/plain', '')))}```"


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*.py")) if path.is_dir() else [path]
