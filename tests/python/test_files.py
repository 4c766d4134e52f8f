"""Files are found and split so that every message is read once, with any size of parts and blocks."""

import gzip
import struct

import pyarrow as pa
import pytest

import all_golden
import towpath
from fidelity import read
from towpath import files

LINES = b'{"a":1}\r\n\n{"longer than a view can hold by itself":2}\nx\r\n\r\ny\rz\nthe last one has no end'
TEXTS = [
    b'{"a":1}',
    b"",
    b'{"longer than a view can hold by itself":2}',
    b"x",
    b"",
    b"y\rz",
    b"the last one has no end",
]
PAIRS = [(b"k", b"first"), (None, b"a value that is longer than a view"), (b"", b""), (b"key", None), (b"last", b"v")]
CAPTURES = [capture for dialect in towpath.dialects() for capture in all_golden.captures(dialect["name"])]


def prefixed(part):
    return b"\xff\xff\xff\xff" if part is None else struct.pack(">I", len(part)) + part


FRAMED = {
    "lines": (LINES, [(None, text) for text in TEXTS]),
    "length-prefixed": (b"".join(map(prefixed, TEXTS)), [(None, text) for text in TEXTS]),
    "key-value": (b"".join(prefixed(key) + prefixed(value) for key, value in PAIRS), PAIRS),
}


def packed(data, compression):
    if compression == "none":
        return data
    return gzip.compress(data) if compression == "gzip" else pa.compress(data, codec="zstd", asbytes=True)


def written(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def found(place, **settings):
    [file] = files.find([str(place)], **settings)
    return file


def pairs(parts):
    """Key, value and offset of every message."""
    batches = [batch for part in parts for batch in files.messages(part)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row.get("key"), row["value"]) for row in rows], [row["_offset"] for row in rows]


@pytest.mark.parametrize(
    "capture", [capture for capture in CAPTURES if ".kv" not in capture.name], ids=lambda capture: capture.name
)
def test_golden_files_are_cut_as_other_code_cuts_them(capture):
    framing = "length-prefixed" if ".bin" in capture.name else "auto"
    file = found(all_golden.GOLDEN / capture.name, framing=framing)
    cut, offsets = pairs(files.split(file, 1 << 20))
    assert [value for _, value in cut] == [record.value for record in capture.records]
    data, header = read(all_golden.GOLDEN / capture.name), 0 if file.framing == "lines" else 4
    assert all(data.startswith(value, at + header) for at, (_, value) in zip(offsets, cut, strict=True))


@pytest.mark.parametrize(
    "capture", [one for one in CAPTURES if one.name.endswith(".kvrec.zst")], ids=lambda capture: capture.name
)
def test_golden_pairs_are_cut_as_other_code_cuts_them(capture):
    cut, _ = pairs(files.split(found(all_golden.GOLDEN / capture.name), 1 << 20))
    assert cut == [(record.key, record.value) for record in capture.records]


@pytest.mark.parametrize("framing", FRAMED)
def test_every_size_of_parts(tmp_path, framing):
    data, wanted = FRAMED[framing]
    file = found(written(tmp_path / "file", data), framing=framing)
    whole, offsets = pairs(files.split(file, len(data)))
    assert whole == wanted
    for size in range(1, len(data) + 2):
        parts = files.split(file, size)
        assert (parts[0].start, parts[-1].end) == (0, len(data))
        assert len(parts) > 1 or size > len(data) / 2  # its last message may be most of a file
        assert pairs(parts) == (wanted, offsets), size


@pytest.mark.parametrize("compression", files.COMPRESSIONS)
@pytest.mark.parametrize("framing", FRAMED)
def test_every_size_of_blocks(tmp_path, monkeypatch, framing, compression):
    data, wanted = FRAMED[framing]
    file = found(written(tmp_path / "file", packed(data, compression)), framing=framing, compression=compression)
    for size in range(1, len(data) + 2):
        monkeypatch.setattr(files, "BLOCK_BYTES", size)
        assert pairs(files.split(file, 1 << 20))[0] == wanted, size
        assert pairs(files.split(file, 20))[0] == wanted, size


@pytest.mark.parametrize(("compression", "suffix"), [("gzip", "gz"), ("zstd", "zst")])
def test_members_and_frames_may_follow_each_other(tmp_path, compression, suffix):
    halves = [packed(LINES[:20], compression), packed(LINES[20:], compression)]
    file = found(written(tmp_path / f"a.jsonl.{suffix}", b"".join(halves)))
    assert (file.framing, file.compression) == ("lines", compression)
    assert [value for _, value in pairs(files.split(file, 5))[0]] == TEXTS


def test_small_files_are_read_together_and_large_ones_alone(tmp_path):
    for number, size in enumerate([1, 2, 30, 4, 5]):
        written(tmp_path / f"{number}.jsonl", b"x" * (size << 20))
    parts = [part for file in files.find([str(tmp_path)]) for part in files.split(file, 20 << 20)]
    tasks = [[(part.file.number, part.size >> 20) for part in task] for task in files.together(parts, 20 << 20)]
    assert tasks == [[(0, 1), (1, 2)], [(2, 20)], [(2, 10)], [(3, 4), (4, 5)]]


def test_batches_are_of_a_bounded_number_of_messages(tmp_path):
    file = found(written(tmp_path / "a.jsonl", b"1\n" * 25_001))
    [part] = files.split(file, 1 << 20)
    assert [len(batch) for batch in files.messages(part)] == [10_000, 10_000, 5_001]


@pytest.mark.parametrize(("data", "count"), [(b"", 0), (b"\n", 1), (b"a\n", 1), (b"a\n\n", 2), (b"a", 1)])
def test_nothing_is_behind_the_last_newline(tmp_path, data, count):
    file = found(written(tmp_path / "a.jsonl", data))
    assert len(pairs(files.split(file, 1 << 20))[0]) == count


@pytest.mark.parametrize("framing", ["length-prefixed", "key-value"])
def test_a_file_that_ends_within_a_message(tmp_path, framing):
    data, wanted = FRAMED[framing]
    file = found(written(tmp_path / "whole", data), framing=framing)
    beginnings = [*pairs(files.split(file, 1 << 20))[1], len(data)]
    for end in range(1, len(data)):
        short = found(written(tmp_path / "short", data[:end]), framing=framing)
        if end in beginnings:
            assert pairs(files.split(short, 1 << 20))[0] == wanted[: beginnings.index(end)]
            continue
        begun = max(start for start in beginnings if start < end)
        for size in (1, 1 << 20):
            with pytest.raises(ValueError, match=rf"short: byte {begun}: the file ends within the message"):
                pairs(files.split(short, size))


def test_a_length_beyond_the_bound(tmp_path):
    file = found(written(tmp_path / "a.lenrec", prefixed(b"good") + struct.pack(">I", (256 << 20) + 1) + b"rest"))
    with pytest.raises(ValueError, match=r"a\.lenrec: byte 8: the length 268435457 exceeds the limit of 268435456"):
        pairs(files.split(file, 1 << 20))


@pytest.mark.parametrize(("compression", "suffix"), [("gzip", "gz"), ("zstd", "zst")])
def test_a_compressed_file_that_is_damaged(tmp_path, compression, suffix):
    data = packed(b"".join(b"%d\n" % number for number in range(10_000)), compression)
    flipped = bytes([*data[: len(data) // 2], data[len(data) // 2] ^ 0xFF, *data[len(data) // 2 + 1 :]])
    damages = [data[:-1], data[: len(data) // 2], data[:5], b"no such file", data + b"behind it"]
    damages += [flipped] if compression == "gzip" else []  # zstd need not write a checksum, and here does not
    for damaged in damages:
        file = found(written(tmp_path / f"a.jsonl.{suffix}", damaged))
        with pytest.raises(OSError, match=rf"a\.jsonl\.{suffix}: byte \d+ of the decompressed data: "):
            pairs(files.split(file, 1 << 20))


def test_a_file_that_became_shorter(tmp_path):
    file = found(written(tmp_path / "a.jsonl", LINES))
    parts = files.split(file, 20)
    written(tmp_path / "a.jsonl", LINES[:30])
    with pytest.raises(OSError, match=r"a\.jsonl: has 30 bytes, but had at least \d+ when"):
        pairs(parts)


@pytest.fixture
def tree(tmp_path):
    for name in ("b.jsonl", "a.jsonl", "c.lenrec", "_SUCCESS", ".hidden.jsonl", "day=1/a.jsonl.gz", "day=2/a.jsonl"):
        written(tmp_path / "tree" / name, b"")
    return tmp_path / "tree"


def names(place, **settings):
    return [file.path.partition("/tree/")[2] for file in files.find([str(place)], **settings)]


def test_files_folders_and_patterns(tree):
    assert names(tree / "b.jsonl") == ["b.jsonl"]
    assert names(tree) == ["a.jsonl", "b.jsonl", "c.lenrec"]
    assert names(tree, pattern="*.jsonl") == ["a.jsonl", "b.jsonl"]
    assert names(tree / "[ab].jsonl") == ["a.jsonl", "b.jsonl"]
    assert names(tree / "day=?" / "*") == ["day=1/a.jsonl.gz", "day=2/a.jsonl"]
    assert names(tree / "day*") == ["day=1/a.jsonl.gz", "day=2/a.jsonl"]
    assert names(tree / ".hidden.jsonl") == [".hidden.jsonl"]


def test_uris(tree):
    assert names(f"file://{tree}/day=1/*") == ["day=1/a.jsonl.gz"]
    assert names(f"file:{tree}/a.jsonl") == ["a.jsonl"]
    assert found(f"file://{tree}/a.jsonl").name == f"file://{tree}/a.jsonl"


def test_a_name_that_looks_like_a_pattern(tmp_path):
    place = written(tmp_path / "tree" / "a[1].jsonl", b"")
    assert names(place) == ["a[1].jsonl"]


def test_relative_paths(tree, monkeypatch):
    monkeypatch.chdir(tree)
    assert names("*.lenrec") == names("c.lenrec") == names(tree / "c.lenrec") == ["c.lenrec"]


@pytest.mark.parametrize("place", ["no.jsonl", "no*", "day=1/no*/*", "a.jsonl/deeper"])
def test_no_such_file(tree, place):
    with pytest.raises(FileNotFoundError, match="no file at "):
        names(tree / place)


def test_no_such_name(tree):
    with pytest.raises(FileNotFoundError, match=r"no file in the folder .*tree with a name like \*\.kvrec"):
        names(tree, pattern="*.kvrec")


def test_a_name_that_does_not_say_the_framing(tmp_path):
    place = written(tmp_path / "a.bin.zst", b"")
    with pytest.raises(ValueError, match=r"framing: .*a\.bin\.zst; .*one of lines, length-prefixed, key-value"):
        found(place)
    assert found(place, framing="lines").compression == "zstd"


def test_no_such_file_system():
    with pytest.raises(ValueError, match="nosuchscheme"):
        names("nosuchscheme://a/b")


def test_file_systems_of_fsspec(tree):
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    written(tree / "b.jsonl", LINES)
    file = found(f"local://{tree}/b.jsonl")
    assert file.name == f"local://{tree}/b.jsonl"
    assert [value for _, value in pairs(files.split(file, 20))[0]] == TEXTS
