"""The command in a pipe: rows appear as messages arrive, and an interrupt or a closed output ends it cleanly."""

import array
import contextlib
import fcntl
import gzip
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from all_golden import GOLDEN
from canal_messages import change, order
from towpath.cli.standard_input import StandardInput

pytestmark = pytest.mark.slow

CAPTURE = GOLDEN / "canal-json/cloudcanal/small.jsonl"
COMMAND = [sys.executable, "-m", "towpath"]
LONGEST = 60  # seconds until something that is wrong is an error


@pytest.fixture
def started():
    """Starts the command with pipes, and ends what is left of it."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def line_of(process):
    """The next line of its output, which has to come although its input is open."""
    ready, _, _ = select.select([process.stdout], [], [], LONGEST)
    assert ready, "no row came"
    return json.loads(process.stdout.readline())


def send(process, message):
    process.stdin.write(message)
    process.stdin.flush()


@pytest.fixture
def streaming(started):
    """A command that has printed two rows and waits for more."""
    process = started("decode", "-")
    for number in (1, 2):
        send(process, change(data=[order(number, "1.00")]) + b"\n")
        assert dict(line_of(process)["after"])["id"] == str(number)
    return process


def test_rows_appear_as_messages_arrive(streaming):
    send(streaming, change(data=[order(3, "1.00")]))  # a last line need not end
    streaming.stdin.close()
    assert dict(line_of(streaming)["after"])["id"] == "3"
    assert (streaming.wait(LONGEST), streaming.stderr.readline()) == (0, b"3 messages\n")


def test_an_interrupt_prints_the_counts(streaming):
    send(streaming, b'{"half a message')
    streaming.send_signal(signal.SIGINT)
    assert streaming.wait(LONGEST) == 130
    assert streaming.stdout.read() == b""
    assert streaming.stderr.read().decode().split("\n") == [
        "2 messages",
        "2 rows",
        "0 filtered",
        "0 dropped",
        "0 errors",
        "",
    ]


def test_an_interrupt_completes_the_output_file(started, tmp_path):
    output = tmp_path / "rows.parquet"
    process = started("decode", "-", "-o", str(output))
    messages = CAPTURE.read_bytes().splitlines(keepends=True)[:10]
    send(process, b"".join(messages))
    wait_until_read(process.stdin)
    process.send_signal(signal.SIGINT)
    assert (process.wait(LONGEST), process.stderr.readline()) == (130, b"10 messages\n")
    assert pq.read_table(output).num_rows == 10


def wait_until_read(pipe):
    unread = array.array("i", [1])
    deadline = time.monotonic() + LONGEST
    while unread[0]:
        assert time.monotonic() < deadline
        fcntl.ioctl(pipe, termios.FIONREAD, unread)


@pytest.mark.parametrize("line", range(1, 8))
def test_an_interrupt_at_any_line_of_the_reader_loses_nothing(line, monkeypatch):
    """A signal is handled between two lines of Python as well as while the system waits."""
    readable, writable = os.pipe()
    os.write(writable, b"before\n")
    lines = 0

    def interrupt(frame, event, argument):
        nonlocal lines
        if frame.f_code.co_name != "read":
            return None
        lines += event == "line"
        if lines == line and event == "line":
            signal.raise_signal(signal.SIGINT)
            # Were it to wait although it was interrupted, this would end it, and be found in what it returns.
            os.write(writable, b"after\n")
        return interrupt

    with open(readable) as opened, StandardInput() as reader:
        monkeypatch.setattr(sys, "stdin", opened)
        sys.settrace(interrupt)
        try:
            found = b"".join(iter(lambda: reader.read(7), b""))
        finally:
            sys.settrace(None)
            os.close(writable)
        left = os.read(readable, 100)
    assert reader.interrupted
    assert found + left == b"before\nafter\n"
    assert b"after" in left


def test_a_closed_output_is_silent(started):
    process = started("decode", "-")
    send(process, change(data=[order(1, "1.00")]) + b"\n")
    line_of(process)
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):  # it has ended already
        send(process, change(data=[order(1, "1.00")]) + b"\n")
    assert (process.wait(LONGEST), process.stderr.read()) == (0, b"")


@pytest.mark.parametrize("compress", [gzip.compress, lambda data: pa.compress(data, "zstd", asbytes=True)])
def test_compressed_input_is_recognised_by_its_first_bytes(compress, tmp_path):
    wanted = run("decode", str(CAPTURE)).stdout
    assert len(wanted.splitlines()) > 20
    assert run("decode", "-", input=compress(CAPTURE.read_bytes())).stdout == wanted
    named_otherwise = tmp_path / "capture.jsonl"
    named_otherwise.write_bytes(compress(CAPTURE.read_bytes()))
    assert run("decode", str(named_otherwise)).stdout == wanted


def test_standard_input_into_a_file_has_few_row_groups(tmp_path):
    output = tmp_path / "rows.parquet"
    run("decode", "-", "-o", str(output), input=CAPTURE.read_bytes() * 100)
    metadata = pq.ParquetFile(output).metadata
    assert metadata.num_rows == 100 * len(CAPTURE.read_bytes().splitlines())
    assert metadata.num_row_groups == 1


@pytest.mark.parametrize("name", ["ticdc-open/open_protocol.kvrec.zst", "canal-protobuf/canal-mysql/mixed.pb.bin.zst"])
def test_other_framings_from_standard_input(name):
    framing = "key-value" if "kvrec" in name else "length-prefixed"
    content = (GOLDEN / name).read_bytes()
    wanted = run("decode", str(GOLDEN / name), "--framing", framing).stdout
    assert wanted
    assert run("decode", "-", "--framing", framing, input=content).stdout == wanted


@pytest.mark.parametrize("framing", ["lines", "length-prefixed"])
def test_long_messages_take_time_in_proportion(framing, tmp_path):
    """A pipe has 64 KiB: were the message copied with each of these, 40 MB would take minutes."""
    message = change(data=[{"id": "1", "note": "x" * 40_000_000}])
    framed = message + b"\n" if framing == "lines" else len(message).to_bytes(4, "big") + message
    ran = run("decode", "-", "--framing", framing, "--fields", "op", input=framed * 2)
    assert ran.stdout == b'{"op": "insert"}\n' * 2


def test_a_line_without_an_end_is_refused():
    """It is not gathered until memory ends."""
    program = f"cat /dev/zero | tr '\\0' x | {sys.executable} -m towpath decode -"
    ran = subprocess.run(program, shell=True, capture_output=True, check=False, timeout=LONGEST)
    assert ran.returncode == 2
    [line] = ran.stderr.decode().splitlines()
    assert line.startswith("towpath: standard input: byte 0: the line that begins here is longer than ")


def test_input_that_ends_within_a_message_is_an_error():
    ran = run("decode", "-", "--framing", "length-prefixed", input=b"\0\0\0\x09abc", status=2)
    assert ran.stderr.decode().splitlines() == [
        "towpath: standard input: byte 0: the file ends within the message that begins here"
    ]
    ran = run("decode", "-", input=gzip.compress(b"x" * 1000)[:-10], status=2)
    assert ran.stderr.startswith(b"towpath: standard input: ")
    assert len(ran.stderr.splitlines()) == 1


def run(*arguments, input=None, status=0):
    ran = subprocess.run([*COMMAND, *arguments], input=input, capture_output=True, check=False, timeout=LONGEST)
    assert ran.returncode == status, ran.stderr
    return ran
