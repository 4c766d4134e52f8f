"""Compressed values of several frames, damaged frames, and bytes behind them.

The frames were written by the tools zstd 1.5.4 and lz4 1.9.4 with the options named; those of gzip and Snappy are by
Python and pyarrow.
"""

import gzip

import pyarrow as pa
import pytest

import towpath

ONE = b'{"type":"INSERT","database":"d","table":"t","data":[{"id":"1"}]}\n'
TWO = ONE.replace(b'"1"', b'"2"')
SKIPPABLE = bytes.fromhex("532a4d18 03000000 616263")

_ZSTD = (
    "{} 7b2274797065223a22494e53455254222c226461746162617365223a2264222c227461626c65223a2274222c"
    "2264617461223a5b7b226964223a22{}227d5d7d0a {}"
)
_LZ4 = (
    "{} f00a7b2274797065223a22494e53455254222c226461746162617314008064222c227461626c0c0013741b00f001"
    "223a5b7b226964223a22{}227d5d7d0a {}"
)
FRAMES = {
    "zstd --check": (
        "zstd",
        _ZSTD.format("28b52ffd 0458 090200", "31", "97b50f5f"),
        _ZSTD.format("28b52ffd 0458 090200", "32", "fc5e7a2b"),
    ),
    "zstd --check, with its size": (
        "zstd",
        _ZSTD.format("28b52ffd 2441 090200", "31", "97b50f5f"),
        _ZSTD.format("28b52ffd 2441 090200", "32", "fc5e7a2b"),
    ),
    "lz4": (
        "lz4",
        _LZ4.format("04224d18 6440a7 3e000000", "31", "00000000 135017e5"),
        _LZ4.format("04224d18 6440a7 3e000000", "32", "00000000 b39b611d"),
    ),
    "lz4 -BX -BD": (
        "lz4",
        _LZ4.format("04224d18 7440bd 3e000000", "31", "e8184d28 00000000 135017e5"),
        _LZ4.format("04224d18 7440bd 3e000000", "32", "f49019d7 00000000 b39b611d"),
    ),
}
FRAMES = {name: (codec, bytes.fromhex(one), bytes.fromhex(two)) for name, (codec, one, two) in FRAMES.items()}
FRAMES |= {
    "gzip": ("gzip", gzip.compress(ONE), gzip.compress(TWO)),
    "pyarrow zstd": ("zstd", pa.compress(ONE, "zstd", asbytes=True), pa.compress(TWO, "zstd", asbytes=True)),
    "pyarrow lz4": ("lz4", pa.compress(ONE, "lz4", asbytes=True), pa.compress(TWO, "lz4", asbytes=True)),
}
CHECKED = [name for name in FRAMES if not name.startswith("pyarrow")]


@pytest.fixture(params=FRAMES)
def frames(request):
    return FRAMES[request.param]


def rows(value, compression):
    decoder = towpath.Decoder("canal-json", "id int", fields=["op", "after", "error"], compression=compression)
    return decoder.decode(pa.array([value], pa.binary())).to_pylist()


def ids(value, compression):
    found = rows(value, compression)
    assert [row["error"] for row in found] == [None] * len(found)
    return [row["after"]["id"] for row in found]


def error(value, compression):
    [row] = rows(value, compression)
    assert row["op"] == "error"
    assert row["error"]["kind"] == "compression"
    return row["error"]["message"]


def test_every_frame_is_read(frames):
    codec, one, two = frames
    assert ids(one, codec) == [1]
    assert ids(one + two, codec) == [1, 2]
    assert ids(two + one + two, codec) == [2, 1, 2]


@pytest.mark.parametrize("tail", [b"garbage", b"\0", b"\n", ONE], ids=["word", "NUL", "newline", "message"])
def test_bytes_behind_the_last_frame(frames, tail):
    codec, one, two = frames
    error(one + tail, codec)
    error(one + two + tail, codec)


def test_a_frame_that_is_cut(frames):
    codec, one, two = frames
    for length in range(1, len(two)):
        error(two[:length], codec)
        error(one + two[:length], codec)


@pytest.mark.parametrize("name", CHECKED)
def test_no_changed_bit_is_another_message(name):
    codec, one, two = FRAMES[name]
    whole = one + two
    for bit in range(len(whole) * 8):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        found = rows(bytes(changed), codec)
        assert found[0]["error"] or [row["after"]["id"] for row in found] == [1, 2], bit


def test_a_wrong_checksum_is_named():
    codec, one, two = FRAMES["zstd --check"]
    assert "checksum" in error(one[:-1] + bytes([one[-1] ^ 1]) + two, codec)


def test_a_wrong_size_is_named():
    codec, one, _ = FRAMES["zstd --check, with its size"]
    assert "declares 66" in error(one[:5] + b"\x42" + one[6:], codec)


def test_auto_reads_all_lz4_frames():
    _, one, two = FRAMES["lz4"]
    assert ids(one + two, "auto") == [1, 2]
    error(one + two[:-9], "auto")


@pytest.mark.parametrize("name", ["zstd --check", "lz4"])
def test_skippable_frames_have_no_content(name):
    codec, one, two = FRAMES[name]
    assert ids(SKIPPABLE + one + SKIPPABLE + SKIPPABLE + two + SKIPPABLE, codec) == [1, 2]
    for length in range(4, len(SKIPPABLE)):
        error(one + SKIPPABLE[:length], codec)
    error(SKIPPABLE, codec)


def test_a_snappy_block_has_no_second_one():
    one, two = (pa.compress(message, "snappy", asbytes=True) for message in (ONE, TWO))
    assert ids(one, "snappy") == [1]
    error(one + two, "snappy")
    error(one + b"garbage", "snappy")
    for length in range(1, len(one)):
        error(one[:length], "snappy")


def test_a_snappy_block_is_bounded():
    assert str(256 << 20) in error(pa.compress(bytes((256 << 20) + 1), "snappy", asbytes=True), "snappy")


@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip"])
def test_the_limit_is_one_for_all_frames(codec):
    half = pa.compress(bytes(129 << 20), codec, asbytes=True)
    assert str(256 << 20) in error(half + half, codec)


@pytest.mark.parametrize("name", ["zstd --check", "lz4"])
def test_the_number_of_frames_is_bounded(name):
    codec, one, _ = FRAMES[name]
    assert len(rows(one * 10_000, codec)) == 10_000
    assert "10000 frames" in error(one * 10_001, codec)
