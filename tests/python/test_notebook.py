"""The notebook runs from its first cell to its last, prints what is stored in it, and draws its plots."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import towpath
from documents import ROOT

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"

# In a process of its own: the libraries of Jupyter raise warnings, which are errors here.
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=300, resources={"metadata": {"path": sys.argv[2]}}).execute()
nbformat.write(notebook, sys.argv[3])
"""

needed = ["nbclient", "ipykernel", "matplotlib", "pandas"]
missing = [name for name in needed if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing), reason=f"the notebook needs {', '.join(missing)}: requirements/dev.txt"),
]


def outputs(notebook):
    """What each cell printed, and the kinds of what it showed."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [
        (
            "".join("".join(one["text"]) for one in cell["outputs"] if one.get("name") == "stdout"),
            [sorted(one["data"]) for one in cell["outputs"] if "data" in one],
        )
        for cell in cells
    ]


def test_the_notebook(tmp_path):
    executed = tmp_path / "executed.ipynb"
    # The kernel starts another Python, which has to find this towpath.
    path = os.pathsep.join([str(Path(towpath.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", EXECUTE, NOTEBOOK, NOTEBOOK.parent, executed]
    variables = {**os.environ, "PYTHONPATH": path, "IPYTHONDIR": str(tmp_path), "MPLBACKEND": ""}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr
    found = outputs(json.loads(executed.read_text()))
    assert found == outputs(json.loads(NOTEBOOK.read_text()))
    shown = [kind for _, kinds in found for kind in kinds]
    assert shown.count(["image/png", "text/plain"]) == 2, "two plots"
    # What the source's table had in the end: see tests/lakehouse/test_lakehouse_docs.py.
    assert "20 rows remain" in "".join(text for text, _ in found)
