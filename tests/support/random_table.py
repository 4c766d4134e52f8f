"""A table of random columns and rows, and canal's messages about it."""

from lake_topic import canal

NAMES = ["a b", 'say "x"', "it's", "a.b", "tick`s", "名", "s", "t", "c0", "gone", "place", "order", "_towpath", "TOTAL"]
TYPES = ["bigint", "decimal(12,3)", "varchar(40)", "datetime(6)", "date", "double", "tinyint", "varbinary(8)", "json"]
VALUES = {
    "bigint": ["-9223372036854775808", "7"],
    "decimal(12,3)": ["123456789.125", "-0.001"],
    "varchar(40)": ["", 'o\'clock "now"', "名\\n", "x"],
    "datetime(6)": ["2024-02-29 23:59:59.999999", "1000-01-01 00:00:00.000000"],
    "date": ["9999-12-31", "1970-01-01"],
    "double": ["1e+30", "-0.5"],
    "tinyint": ["-128", "1"],
    "varbinary(8)": ["\u0000\u00ff", "abc"],
    "json": ['{"a": [1, null]}', "null"],
}


class RandomTable:
    """A table of random columns whose key has one or two, and the messages about it."""

    def __init__(self, rng):
        self.rng = rng
        others = rng.sample(NAMES, 6)
        self.keys = ["id", others[0]][: rng.randrange(1, 3)]
        kinds = {name: rng.choice(TYPES) for name in others[1:]}
        self.types = {"id": "int", others[0]: "varchar(40)", **kinds}
        self.rows = {}
        self.offsets = [0, 0]
        self.second = 0

    def messages(self, count):
        return [self.message() for _ in range(count)]

    def message(self):
        rng = self.rng
        self.second += rng.randrange(2)
        if self.rows and rng.random() < 0.6:
            key = rng.choice(list(self.rows))
            old = self.rows.pop(key)
            if rng.random() < 0.3:
                return self.sent("DELETE", old)
            self.rows[key] = {**old, **{name: self.value(kind) for name, kind in self.of_values().items()}}
            changed = {name: old[name] for name in old if old[name] != self.rows[key][name]}
            return self.sent("UPDATE", self.rows[key], changed)
        key = (str(rng.randrange(30)), *(rng.choice(["a", "A", "é", "'"]) for _ in self.keys[1:]))
        if key in self.rows:
            return self.message()
        named = dict(zip(self.keys, key, strict=True))
        self.rows[key] = {name: named.get(name, self.value(kind)) for name, kind in self.types.items()}
        return self.sent("INSERT", self.rows[key])

    def of_values(self):
        return {name: kind for name, kind in self.types.items() if name not in self.keys}

    def value(self, kind):
        return self.rng.choice([None, *VALUES.get(kind, ["1"])])

    def sent(self, kind, values, old=None):
        partition = int(values["id"]) % 2
        self.offsets[partition] += 1
        more = {"old": old, "second": self.second, "partition": partition, "pkNames": self.keys}
        return canal(self.offsets[partition], kind, "a", values, self.types, **more)
