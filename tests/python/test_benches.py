"""The Python benches read a few messages, and RESULTS.md is what is written from the committed figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import results
import run
import towpath
import train

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.version_info < (3, 11), reason="the peers polars and duckdb need Python 3.11"),
]


def test_results_are_written_from_the_committed_figures() -> None:
    parts = results.load(run.PARTS)
    assert set(parts) == set(run.PARTS)
    assert (ROOT / "benches" / "RESULTS.md").read_text() == results.report(parts, run.LIMIT)


def test_a_part_that_is_not_measured_keeps_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rust = results.load(["rust"])["rust"]
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    results.save("rust", rust)
    run.keep_last("rust", "cargo not found")
    kept = results.load(["rust", "jvm"])
    assert kept["rust"]["figures"] == rust["figures"]
    assert "cargo not found" in results.date("rust", kept["rust"])
    assert "jvm" not in kept


def test_ratios_are_medians_of_rounds() -> None:
    """The ratio of the medians would be 1.0."""
    samples = {"rust wide/towpath typed": [1.0, 2.0, 3.0], "rust wide/simd-json tape": [2.0, 1.0, 3.0]}
    summarised = results.summarised({**samples, "rust wide/serde derive": [1.0, 4.0, 2.0]})
    assert summarised["ratios"]["rust wide/towpath typed : rust wide/simd-json tape"] == 1.0
    assert summarised["ratios"]["rust wide/towpath typed : rust wide/serde derive"] == 1.0
    assert summarised["figures"]["rust wide/towpath typed"] == [2.0, 1.0, 3.0]


@pytest.mark.soak
def test_every_python_bench_reads_a_few_messages(tmp_path: Path) -> None:
    """Each peer's output is compared with the standard library's before it is timed."""
    command = [sys.executable, "-m", "pytest", "-q", "benches/bench_decode.py", "--override-ini=filterwarnings="]
    few = {"TOWPATH_BENCH_COUNT": "300", "TOWPATH_BENCH_ROUNDS": "1", "TOWPATH_BENCH_CACHE": str(tmp_path)}
    options = ["-p", "no:cacheprovider", "--benchmark-storage", str(tmp_path)]
    ran = subprocess.run([*command, *options], cwd=ROOT, env=os.environ | few, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
    assert " skipped" not in ran.stdout


def test_a_build_is_trained_with_every_dialect() -> None:
    """What it is not trained with gets slower."""
    samples = list(train.captured(few=5))
    assert {dialect for dialect, _, _ in samples} == {dialect["name"] for dialect in towpath.dialects()}
    assert set(train.SHAPES.values()) <= {dialect for dialect, _, _ in samples}
    trainer = train.train(samples)
    read = {
        dialect
        for dialect, messages, _ in samples
        if trainer.decoder(dialect, dialect, mode="DROPMALFORMED").decode(messages).num_rows
    }
    assert read == {dialect for dialect, _, _ in samples}
