"""What Alibaba canal wrote while it read real servers, in both of its formats."""

from dataclasses import dataclass

import pyarrow as pa

from fidelity import lines, messages, records
from golden_files import GOLDEN


@dataclass(frozen=True)
class Capture:
    """A file of one dialect, in the folder with the same name as its truth's."""

    folder: str
    file: str
    dialect: str = "canal-json"

    def values(self) -> list[bytes]:
        path = GOLDEN.parent / self.dialect / self.folder / self.file
        return lines(path) if self.dialect == "canal-json" else records(path)

    def messages(self) -> pa.Array:
        return messages(self.values())


def protobuf(folder: str, file: str) -> Capture:
    return Capture(folder, file, "canal-protobuf")


JSON = {
    "canal-mysql": Capture("canal-mysql", "mixed.flat.jsonl.zst"),
    "canal-maria": Capture("canal-maria", "mixed.flat.jsonl.zst"),
    "canal-gtid": Capture("canal-gtid", "mixed.flat.jsonl.zst"),
    "canal-maria-shanghai": Capture("canal-maria", "mixed.flat.tz_shanghai.jsonl.zst"),
}
PROTOBUF = {
    "protobuf-mysql": protobuf("canal-mysql", "mixed.pb.bin.zst"),
    "protobuf-mysql-without-marks": protobuf("canal-mysql", "mixed.pb_notx.bin.zst"),
    "protobuf-mysql-raw": protobuf("canal-mysql", "mixed.pb_raw.bin.zst"),
    "protobuf-maria": protobuf("canal-maria", "mixed.pb.bin.zst"),
    "protobuf-maria-without-marks": protobuf("canal-maria", "mixed.pb_notx.bin.zst"),
    "protobuf-maria-raw": protobuf("canal-maria", "mixed.pb_raw.bin.zst"),
    "protobuf-gtid": protobuf("canal-gtid", "mixed.pb.bin.zst"),
}
