"""Draws the pictures of the README and of the site from real output: `python docs/site/pictures.py`.

It needs the environment of the tests with `rich`, and Chromium. With `npm` it also draws the README's diagram for the
site, which GitHub draws by itself: so the site loads nothing from other servers.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
HEAD = "head tests/golden/canal-json/ticdc/canal_json_stream_ext.jsonl.zst --table composite_pk -n 2"
REPORT = (
    "report tests/golden/canal-json/ticdc/canal_json_stream_ext.jsonl.zst "
    "--schema 'order_id bigint, qty tinyint, price decimal(8,2)'"
)


CHROMIUM = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]


def output_of(command: str, *more: str) -> str:
    """What the command prints."""
    words = [sys.executable, "-m", "towpath", *shlex.split(command), *more]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def draw_head() -> None:
    """A terminal with the output of `towpath head`."""
    from rich.console import Console
    from rich.text import Text

    printed = output_of(HEAD).rstrip()
    console = Console(record=True, width=108, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(Text(f"$ towpath {HEAD}", style="bold"), "", sep="\n")
    for line in printed.splitlines():
        console.print(Text(line, style="bold yellow" if line.startswith(" *") else ""))
    svg = console.export_svg(title="towpath head")
    # Fonts of another server: the reader's own will do.
    (IMAGES / "head.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), encoding="utf-8")


def draw_report() -> None:
    """The top of a report's page."""
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        words = [sys.executable, "-m", "towpath", *shlex.split(REPORT), "-o", str(page)]
        subprocess.run(words, cwd=ROOT, check=False, capture_output=True)  # its status is 1, as there are errors
        picture = f"--screenshot={IMAGES / 'report.png'}"
        subprocess.run([*CHROMIUM, "--window-size=1000,860", picture, page.as_uri()], check=True, capture_output=True)


def draw_diagram() -> None:
    """The diagram of the README, by mermaid in a browser."""
    [code] = re.findall(r"```mermaid\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    with TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", "mermaid@11"], cwd=folder, check=True, capture_output=True)
        [packed] = Path(folder).glob("mermaid-*.tgz")
        with tarfile.open(packed) as archive:
            archive.extract("package/dist/mermaid.min.js", folder, filter="data")
        page = Path(folder) / "page.html"
        page.write_text(
            f"""<pre class="mermaid">{code}</pre><script src="package/dist/mermaid.min.js"></script>
            <script>mermaid.initialize({{htmlLabels: false, flowchart: {{htmlLabels: false}}}})</script>""",
            encoding="utf-8",
        )
        command = [
            *CHROMIUM,
            "--allow-file-access-from-files",
            "--virtual-time-budget=20000",
            "--dump-dom",
            page.as_uri(),
        ]
        dom = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [svg] = re.findall(r"<svg.*</svg>", dom, re.DOTALL)
    (IMAGES / "flow.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    draw_head()
    draw_report()
    if shutil.which("npm"):
        draw_diagram()
