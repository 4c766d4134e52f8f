"""The order of changes in plain Python: what the rules in Rust and in Spark's SQL are compared with.

A place is a dictionary of the fields of an order value; times are microseconds since 1970.
"""

FIELDS = (
    "event_time",
    "produced_time",
    "batch",
    "timestamp",
    "offset",
    "step",
    "commit_ts",
    "is_row",
    "log",
    "file",
    "at",
    "topic",
    "partition",
    "table",
)


def some_place(rng, offset):
    """An order value of few different values, so that every rule has to decide some pairs."""
    kind = rng.choice(["canal", "canal", "log", "commit", "unknown"])
    return {
        "event_time": rng.choice([None, 3_000_000, 4_000_000, 5_000_000, 6_000_000]),
        "produced_time": rng.choice([3_500_000, 4_500_000]) if kind == "canal" else None,
        "batch": rng.choice([1, 2, 3]) if kind == "canal" else None,
        "timestamp": rng.choice([None, 4_000_000, 4_000_500, 8_000_000]),
        "offset": offset,
        "step": rng.choice([0, 1, 2]),
        "commit_ts": rng.choice([7, 8]) if kind == "commit" else None,
        "is_row": rng.choice([True, False]),
        "log": rng.choice(["1/bin", "2/bin"]) if kind == "log" else None,
        "file": rng.choice([1, 2]) if kind == "log" else None,
        "at": rng.choice([4, 5]) if kind == "log" else None,
        "topic": None if kind == "unknown" else "t",
        "partition": None if kind == "unknown" else rng.choice([0, 1]),
        "table": None,
    }


def sortable(place, *names):
    """Fields as a tuple in which null is the least."""
    return tuple((place[name] is not None, place[name] if place[name] is not None else 0) for name in names)


def is_newer(one, other):
    if other is None:
        return True
    if one["commit_ts"] is not None and other["commit_ts"] is not None:
        return (one["commit_ts"], one["is_row"]) > (other["commit_ts"], other["is_row"])
    if one["log"] is not None and one["log"] == other["log"] and _in_log(one) != _in_log(other):
        return _is_after_in_log(one, other)
    is_failover = None not in (one["log"], other["log"]) and one["log"] != other["log"]
    is_one_partition = one["topic"] is not None and _partition(one) == _partition(other)
    if is_one_partition and not is_failover:
        is_later = sortable(one, "offset", "step") > sortable(other, "offset", "step")
        return _is_recreated(one, other) or (is_later and not _is_recreated(other, one))
    return sortable(one, *FIELDS) > sortable(other, *FIELDS)


def _in_log(place):
    return place["file"], place["at"]


def _partition(place):
    return place["topic"], place["partition"]


def _is_later(one, other):
    """Whether both event times are known, and the first is later."""
    return None not in (one["event_time"], other["event_time"]) and one["event_time"] > other["event_time"]


def _is_after_in_log(one, other):
    after = _in_log(one) > _in_log(other)
    contradicts = _is_later(other, one) if after else _is_later(one, other)
    if not contradicts:
        return after
    if None in (one["timestamp"], other["timestamp"]):
        return not after
    return one["timestamp"] >= other["timestamp"] if after else one["timestamp"] > other["timestamp"]


def _is_recreated(one, other):
    """Whether the topic was recreated between two places of a partition."""
    if one["offset"] > other["offset"]:
        return False
    if None in (one["timestamp"], other["timestamp"]):
        return _is_later(one, other)
    return one["timestamp"] > other["timestamp"] + 1_000_000 and not _is_later(other, one)


def not_before(place, *others):
    """The place with the latest event time of it and of others."""
    times = [one["event_time"] for one in (place, *others) if one is not None and one["event_time"] is not None]
    return {**place, "event_time": max(times, default=None)}


def one_by_one(places):
    """The place that is left, with its event time, after changes were applied as they arrived."""
    newest, *others = sorted(places, key=lambda place: sortable(place, "timestamp", "offset", "step"))
    for place in others:
        if is_newer(place, newest):
            newest = not_before(place, newest)
    return newest


def is_certain(statement, change):
    """Whether more than times says which of a statement and a change came first."""
    logs, commits = ({one[name] for one in (statement, change)} for name in ("log", "commit_ts"))
    if None not in commits or (None not in logs and len(logs) == 1):
        return True
    is_failover = None not in logs
    return not is_failover and statement["topic"] is not None and _partition(statement) == _partition(change)


def is_ordered(statement, change):
    """Whether it is known which of a statement and a change came first."""

    def known(name):
        return None not in (statement[name], change[name])

    if is_certain(statement, change):
        return True
    if not known("event_time"):
        return False
    later = _sign(statement["event_time"], change["event_time"])
    if known("produced_time") and statement["produced_time"] != change["produced_time"]:
        batch = _sign(statement["produced_time"], change["produced_time"])
    elif statement["produced_time"] == change["produced_time"] and known("batch"):
        batch = _sign(statement["batch"], change["batch"])
    else:
        return later != 0
    return batch != 0 and later in (0, batch)


def _sign(one, other):
    return (one > other) - (one < other)


def outcome(change, is_delete, row, tombstones, truncates):
    """Whether a change is applied, and its event time then.

    Args:
        change: Its place.
        is_delete: Whether it deletes its row.
        row: A list with the place of the target's row, which may be None; the empty list if there is no row.
        tombstones: The places of the key's tombstones.
        truncates: The places of truncates.
    """
    gone = None
    for place in sorted(tombstones, key=lambda place: sortable(place, *FIELDS)):
        gone = place if is_newer(place, gone) else gone
    latest = not_before(change, *row, gone)
    if any(is_ordered(one, change) and is_newer(one, change) for one in truncates):
        return False, latest["event_time"]
    if not is_newer(change, gone) and not (is_delete and row and gone == latest):
        return False, latest["event_time"]
    return not row or is_newer(change, row[0]), latest["event_time"]
