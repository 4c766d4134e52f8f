"""Handwritten canal-json messages for cases that no capture has."""

import json
from typing import Any


def change(kind: str = "INSERT", data: Any = None, old: Any = None, **envelope: Any) -> bytes:
    """One canal-json message of the table shop.orders."""
    message = {"database": "shop", "table": "orders", "type": kind, "data": data, "old": old, **envelope}
    return json.dumps(message, ensure_ascii=False).encode()


def order(order_id: int, total: str, placed_at: str = "2024-05-06 07:08:09") -> dict[str, str]:
    """A row of shop.orders as canal writes it: everything is text."""
    return {"id": str(order_id), "total": total, "placed_at": placed_at}


SCHEMA = "id bigint, total decimal(10,2), placed_at timestamp_ntz"

# A valid message, one with an invalid value, one of another table, one that is not JSON, and a valid one.
MIXED = [
    change(data=[order(1, "12.50")]),
    change(data=[order(2, "12,50")]),
    change(data=[{"id": "not a number"}], table="customers"),
    b'{"type":"INSERT","data":[{',
    change("UPDATE", data=[order(1, "13.00")], old=[{"total": "12.50"}]),
]
