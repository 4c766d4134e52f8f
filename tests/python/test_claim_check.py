"""Messages that TiCDC stored because they were too large for Kafka: as pointers, and loaded from their files."""

import base64
import io
import json
import os
import pickle
import tarfile
from pathlib import PurePath

import pyarrow as pa
import pytest

import towpath
from fidelity import lines, read
from golden_files import GOLDEN
from towpath import claim_check

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


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: pa.table({"value": a})], ids=["array", "table"])
def test_stored_messages_are_read_in_parts(stored, claims, whole, wrap):
    decoder = towpath.Decoder(fields=FIELDS, claim_check=str(stored))
    batches = list(decoder.decode_batches(wrap(claims), max_bytes=1))
    assert len(batches) > len(list(stored.iterdir())) // 2
    expected = towpath.Decoder(fields=FIELDS).decode(whole)
    assert pa.Table.from_batches(batches).combine_chunks().to_batches()[0].equals(expected)


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


def claim(location, table="t"):
    extension = {"commitTs": 1, "claimCheckLocation": location}
    return json.dumps(
        {"type": "INSERT", "database": "d", "table": table, "data": [{"id": "5"}], "_tidb": extension}
    ).encode()


def plain(number, **more):
    return json.dumps({"type": "INSERT", "database": "d", "table": "t", "data": [{"id": str(number)}], **more}).encode()


def decode(messages, folder, **options):
    decoder = towpath.Decoder("canal-json", "id int", claim_check=str(folder), **options)
    return decoder.decode(pa.array(messages, pa.binary())).to_pylist()


def only_error(folder, location, **options):
    """The error of a claim check, which must not be one of its neighbours."""
    message = claim(location)
    before, row, after = decode([plain(1), message, plain(2)], folder, **options)
    assert (before["after"], before["error"], after["after"], after["error"]) == ({"id": 1}, None, {"id": 2}, None)
    assert (row["op"], row["error"]["kind"], row["_corrupt_record"]) == ("error", "envelope", message)
    text = row["error"]["message"]
    assert text.startswith("canal-json: the stored message cannot be read: ")
    assert len(text) < 500
    return text


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("gone.json", "'gone.json' does not exist"),
        ("/there/gone.json", "'gone.json' does not exist"),
        ("", "is not a file name"),
        ("/", "is not a file name"),
        ("..", "is not a file name"),
        ("a/..", "is not a file name"),
        (".", "is not a file name"),
        ("a\0b", "is not a file name"),
        ("n" * 256, "is not a file name"),
        ("n" * 100_000, "is not a file name"),
        ("folder", "'folder' is not a regular file"),
        ("queue", "'queue' is not a regular file"),
        ("empty", "'empty' is empty"),
        ("large", "'large' has more than 2000 bytes (claim_check_limit)"),
        ("outside", "'outside' is a link to a file outside of the folder"),
        ("beside", "'beside' is a link to a file outside of the folder"),
        ("parent", "'parent' is a link to a file outside of the folder"),
        ("circle", "'circle' is a link to a file outside of the folder"),
        ("dangling", "'dangling' does not exist"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_of_its_message(tmp_path, location, why):
    folder = tmp_path / "folder"
    (folder / "folder").mkdir(parents=True)
    os.mkfifo(folder / "queue")
    (folder / "empty").touch()
    (folder / "large").write_bytes(b" " * 2001)
    for outside in ("secret", "folder beside"):
        (tmp_path / outside).write_bytes(plain(6))
    links = {
        "outside": tmp_path / "secret",
        "beside": tmp_path / "folder beside",
        "parent": "..",
        "circle": "circle",
        "dangling": "gone",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    assert why in only_error(folder, location, claim_check_limit=2000)


def test_modes_treat_a_missing_file_like_any_other_error(tmp_path):
    messages = [plain(1), claim("gone"), plain(2)]
    assert [row["after"]["id"] for row in decode(messages, tmp_path, mode="DROPMALFORMED")] == [1, 2]
    with pytest.raises(towpath.DecodeError, match="'gone' does not exist") as refused:
        decode(messages, tmp_path, mode="FAILFAST")
    assert refused.value.row == 1


def test_a_folder_that_does_not_exist_is_an_error_of_the_place(tmp_path):
    with pytest.raises(FileNotFoundError, match="claim_check"):
        decode([claim("gone")], tmp_path / "nowhere")
    assert [row["op"] for row in decode([plain(1)], tmp_path / "nowhere")] == ["insert"]


def test_links_within_the_folder_are_read(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_bytes(plain(7))
    (tmp_path / "link").symlink_to("data/file")
    (tmp_path / "folder").symlink_to(tmp_path)
    for folder in (tmp_path, tmp_path / "folder"):
        [row] = decode([claim("s3://bucket/link")], folder)
        assert (row["after"], row["error"]) == ({"id": 7}, None)


def test_files_of_other_tables_are_not_read(tmp_path):
    (tmp_path / "file").write_bytes(plain(7))
    decoder = towpath.Decoder("canal-json", "id int", table="t", claim_check=str(tmp_path))
    messages = [claim("gone", table="other"), claim("file")]
    assert [row["after"] for row in decoder.decode(pa.array(messages)).to_pylist()] == [{"id": 7}]
    assert (decoder.metrics["filtered"], decoder.metrics["errors"]) == (1, {})


def test_a_file_is_read_once_in_a_batch(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(plain(7))
    read = []
    monkeypatch.setattr(claim_check, "_read", lambda *place: read.append(place) or plain(7))
    rows = decode([claim("a/file"), plain(1), claim("b/file")], tmp_path)
    assert ([row["after"]["id"] for row in rows], len(read)) == ([7, 1, 7], 1)


def test_a_file_of_the_limit_is_read(tmp_path):
    (tmp_path / "file").write_bytes(plain(7))
    [row] = decode([claim("file")], tmp_path, claim_check_limit=len(plain(7)))
    assert row["after"] == {"id": 7}


def test_errors_within_a_stored_message_show_the_stored_one(tmp_path):
    (tmp_path / "file").write_bytes(plain("x"))
    [row] = decode([claim("file")], tmp_path)
    assert (row["op"], row["error"]["column"], row["_corrupt_record"]) == ("insert", "id", plain("x"))


def test_kept_columns_are_those_of_the_input(tmp_path):
    (tmp_path / "file").write_bytes(plain(7))
    decoder = towpath.Decoder("canal-json", "id int", claim_check=str(tmp_path), keep=["value"])
    batch = pa.record_batch({"value": pa.array([claim("file")])})
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    for values in (batch, reader):
        [row] = decoder.decode(values).to_pylist()
        assert (row["after"], row["value"]) == ({"id": 7}, claim("file"))
