"""Messages that TiCDC stored because they were too large for Kafka: as pointers, and loaded from their files."""

import base64
import io
import json
import pickle
import tarfile
from pathlib import PurePath

import pyarrow as pa
import pytest

import towpath
from fidelity import lines, read
from golden_files import GOLDEN

FOLDER = GOLDEN / "ticdc"
FIELDS = ["op", "database", "table", "primary_key", "before", "after", "error"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with the files, under another path than the producer's."""
    folder = tmp_path_factory.mktemp("moved here")
    with tarfile.open(fileobj=io.BytesIO(read(FOLDER / "claim_check_files.tar.zst"))) as tar:
        for member in tar:
            if member.isfile():
                (folder / PurePath(member.name).name).write_bytes(tar.extractfile(member).read())
    return folder


@pytest.fixture(scope="module")
def claims():
    return pa.array(lines(FOLDER / "canal_json_ext_claim_check.jsonl.zst"), pa.binary())


@pytest.fixture(scope="module")
def whole():
    """The same changes without claim checks."""
    return pa.array(lines(FOLDER / "canal_json_ext.jsonl.zst"), pa.binary())


@pytest.mark.parametrize("place", [str, lambda folder: folder.as_uri()], ids=["folder", "URI"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda a: a,
        lambda a: pa.array(a.to_pylist(), pa.binary_view()),
        lambda a: pa.record_batch({"value": a}),
    ],
    ids=["array", "views", "record batch"],
)
def test_fetched_messages_are_as_if_they_had_never_been_stored(stored, claims, whole, place, wrap):
    decoder = pickle.loads(pickle.dumps(towpath.Decoder(fields=FIELDS, claim_check=place(stored))))
    assert decoder.decode(wrap(claims)).equals(towpath.Decoder(fields=FIELDS).decode(whole))


def test_a_file_that_is_not_there_is_an_error_of_the_place_not_of_the_message(claims, tmp_path):
    with pytest.raises(FileNotFoundError):
        towpath.Decoder(claim_check=str(tmp_path)).decode(claims)


def test_without_the_place_the_row_has_its_keys_and_says_where_the_rest_is(claims):
    rows = towpath.Decoder().decode(claims).to_pylist()
    claimed = [row for row in rows if row["source"]["claim_check"]]
    assert len(claimed) > 50
    assert {row["error"] is None for row in claimed} == {True}


def test_a_stored_file_is_itself_a_message(stored):
    files = [path.read_bytes() for path in sorted(stored.iterdir())]
    inner = [base64.b64decode(json.loads(file)["value"]) for file in files]
    assert (
        towpath.Decoder(fields=FIELDS)
        .decode(pa.array(files))
        .equals(towpath.Decoder(fields=FIELDS).decode(pa.array(inner)))
    )


def test_what_only_looks_like_a_stored_message():
    broken = b'{"key":null,"value":"no base64!"}'
    row_of_two_columns = b'{"key":"k","value":"v","__op":"c","__table":"t"}'
    [first, second] = towpath.Decoder().decode(pa.array([broken, row_of_two_columns])).to_pylist()
    assert first["error"]["kind"] == "syntax"
    assert (second["op"], second["table"], dict(second["after"])) == ("insert", "t", {"key": "k", "value": "v"})
