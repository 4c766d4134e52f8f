"""The wheel has the licences of the crates in it."""

import re
import shutil
import zipfile

import pytest

from third_party import FILE, crates, heading
from wheels import WHEELS, needs_wheel


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo says which crates there are, and is not installed")
def test_the_licences_are_those_of_the_crates_in_the_wheel():
    text = FILE.read_text()
    listed = re.findall(r"^(\S+ \d\S+): ", text, re.MULTILINE)
    assert listed == [heading(one) for one in crates()], "renew it: python tests/support/third_party.py"
    named = {name for names in re.findall(r"^=+\n(.*)\n=+$", text, re.MULTILINE) for name in names.split(", ")}
    only_apache = {heading(one) for one in crates() if one["license"] == "Apache-2.0"}
    assert set(listed) - named <= only_apache


@needs_wheel
def test_the_wheel_has_the_texts():
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(f".dist-info/licenses/{FILE.name}")]
        assert wheel.read(name) == FILE.read_bytes()
        assert [name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
