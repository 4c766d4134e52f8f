"""Cases that share the batches of `replicate`. Each has a topic and a database of its own: none changes another."""

from contextlib import suppress

import pytest

from lake_topic import OWN_TABLES, Topic

# Of the tables that all cases share, these have the column `topic` or, without messages, `database`.
PLACED = {"dead", "ddl", "dead_quarantine"}


class Case(Topic):
    """What one case sent, and its tables among those of all cases."""

    def __init__(self, all_cases, number):
        """Where a case says `shop`, its own database is meant."""
        vars(self).update(vars(all_cases))
        self.database = f"shop_{number}"

    def name(self, table):
        first, *rest = table.split("/")
        return super().name("/".join([self.database if first == "shop" else first, *rest]))

    def load(self, name):
        frame = super().load(name)
        return frame.filter(frame[of] == self.database) if (of := self._says_database(name)) else frame

    def read(self, name):
        of = self._says_database(name)
        return [row for row in super().read(name) if not of or row[of] == self.database]

    @staticmethod
    def _says_database(name):
        """The column of a table of all cases that says whose a row is."""
        return "topic" if name in PLACED else "database" if name in OWN_TABLES.values() else None

    def tables(self, database):
        return super().tables(self.database if database == "shop" else database)

    def sent(self, messages):
        """The messages with the names of its own database and topic."""
        own = self.database.encode()
        names = ("key", "value")
        return [
            {
                **one,
                "topic": self.database,
                **{name: one[name].replace(b"shop", own) for name in names if one.get(name)},
            }
            for one in messages
        ]

    def with_own(self, value, others):
        """An argument of `replicate` about tables, in a list or as the keys of a mapping: others and its own."""
        if isinstance(value, list):
            return [*(others or []), *(name.replace("shop", self.database) for name in value)]
        return {**(others or {}), **{name.replace("shop", self.database): of for name, of in value.items()}}


class Together:
    """A decorator for cases: functions that take a `Case`, yield the messages of a batch, and check what became of it.

    Batch n of `replicate` has the n-th messages of each case. A case that fails ends, and fails its test alone.
    """

    def __init__(self, catalogs=(None,), marks=(), **options):
        """Run all cases with these arguments of `replicate`, once in each of these catalogs; `None` is Delta.

        `marks` are of all their tests.
        """
        self._cases, self._catalogs, self._options = {}, catalogs, options
        self._marks, self._outcomes = marks, {}

    def __call__(self, case):
        return self.having()(case)

    def having(self, **options):
        """The decorator for a case with arguments about its own tables, which it calls those of `shop`."""

        def decorate(case):
            self._cases[case.__name__] = case, options

            @pytest.mark.parametrize("catalog", self._catalogs, ids=lambda one: "iceberg" if one else "delta")
            def test(spark, tmp_path_factory, catalog):
                if catalog not in self._outcomes:
                    self._outcomes[catalog] = self._run(spark, tmp_path_factory, catalog)
                if error := self._outcomes[catalog][case.__name__]:
                    raise error

            test.__name__, test.__doc__ = case.__name__, case.__doc__
            for mark in self._marks:
                test = mark(test)
            return test

        return decorate

    def _run(self, spark, folders, catalog):
        """The error of each case, or none."""
        topic = Topic(spark, folders.mktemp("together"), catalog)
        options, running, outcomes = dict(self._options), {}, {}
        for number, (name, (case, of_case)) in enumerate(self._cases.items()):
            own = Case(topic, number)
            running[name] = own, case(own)
            for option, value in of_case.items():
                options[option] = own.with_own(value, options.get(option))
        while running:
            batch = []
            for name, (own, case) in list(running.items()):
                try:
                    batch += own.sent(next(case))
                except (Exception, pytest.fail.Exception) as error:
                    outcomes[name] = None if isinstance(error, StopIteration) else _explained(error, own)
                    del running[name]
            try:
                if batch:
                    topic.replicate(*batch, **options)
            except Exception as error:
                return {**outcomes, **dict.fromkeys(running, error)}
        return outcomes


def _explained(error, case):
    """The error of a case with the reasons of its tables that are not replicated: what they log is of another test."""
    if not hasattr(error, "add_note"):  # Python 3.10
        return error
    with suppress(Exception):  # the states may be what is wrong
        reasons = {name: one["reason"] for name, one in case.states().items() if one["reason"]}
        error.add_note(f"reasons: {reasons}")
    return error
