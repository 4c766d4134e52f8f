"""DDL statements become the actions that the manuals of MySQL, MariaDB and TiDB describe, or are not followed."""

import json
import random
import sys
from dataclasses import dataclass

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import towpath
from towpath.lakehouse.log.ordered_statements import Place, Statement, completed
from towpath.lakehouse.statements import (
    MAX_LENGTH,
    Action,
    AddColumn,
    ChangePrimaryKey,
    Column,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    ModifyColumn,
    NotFollowed,
    RenameColumn,
    RenameTable,
    TableName,
    TruncateTable,
    read_statements,
)
from towpath.lakehouse.statements.tokens import _tokenizer_class, tokenize

Value = str | bytes | None
A = TableName("shop", "a")


def shop(name: str) -> TableName:
    return TableName("shop", name)


def add(name: str, type_: str, initial: Value = None, nullable: bool = True) -> AddColumn:
    return AddColumn(A, Column(name, type_, nullable, initial))


def ints(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "int") for name in names)


X = add("x", "int")
CHANGED: list[Action] = [ModifyColumn(A, X.column), RenameColumn(A, "x", "y")]
ID = Column("id", "int", nullable=False, initial="0", primary=True)

FOLLOWED: list[tuple[str, list[Action]]] = [
    # Columns
    ("ALTER TABLE a ADD x int", [X]),
    ("alter table shop.a add column x int;", [X]),
    ("ALTER TABLE .`a` ADD COLUMN shop.a.x int AFTER a.y", [X]),
    ("ALTER TABLE a CHANGE a.x y int", CHANGED),
    ("ALTER TABLE a MODIFY a.x bigint, DROP a.y", [DropColumn(A, "y"), ModifyColumn(A, Column("x", "bigint"))]),
    ("ALTER TABLE a RENAME COLUMN a.x TO a.y", [RenameColumn(A, "x", "y")]),
    ("ALTER TABLE `shop`.`a` ADD COLUMN `x` INT(11) DEFAULT NULL", [add("x", "int(11)")]),
    ("ALTER TABLE a ADD x int FIRST", [X]),
    ("ALTER TABLE a ADD x int NOT NULL DEFAULT 5 COMMENT 'a, ADD y int' AFTER `b c`", [add("x", "int", "5", False)]),
    ("ALTER TABLE a ADD COLUMN (x int, y varchar(3) NOT NULL)", [X, add("y", "varchar(3)", "", False)]),
    ("ALTER TABLE a ADD (x int, KEY k (x))", [X]),
    ("ALTER TABLE a ADD x int, ALGORITHM=INPLACE, LOCK=NONE", [X]),
    ("ALTER TABLE a ALGORITHM = INSTANT, ADD x int", [X]),
    ("ALTER TABLE a ADD INDEX i (x), ADD x int, ADD UNIQUE KEY u (x), ENGINE=InnoDB", [X]),
    ("ALTER TABLE a ADD COLUMN IF NOT EXISTS x int", [AddColumn(A, X.column, if_not_exists=True)]),
    ("ALTER TABLE IF EXISTS a WAIT 5 ADD x int", [X]),
    ("ALTER ONLINE TABLE a ADD x int", [X]),
    ('ALTER TABLE "a" ADD "x" int', [X]),
    ("ALTER TABLE a ADD x int, PARTITION BY HASH (x) PARTITIONS 4", [X]),
    ("ALTER TABLE a ADD 1x int", [add("1x", "int")]),
    ("ALTER TABLE a ADD `x``y` int", [add("x`y", "int")]),
    ("ALTER TABLE a ADD x int CHECK (x > 1 AND y IN (1, 2)) NOT ENFORCED", [X]),
    ("ALTER TABLE a ADD x int REFERENCES b (id) ON DELETE SET NULL ON UPDATE CASCADE", [X]),
    ("ALTER TABLE a ADD x int INVISIBLE STORAGE DISK COLUMN_FORMAT FIXED", [X]),
    ("ALTER TABLE a ADD id int NOT NULL PRIMARY KEY DEFAULT 0", [AddColumn(A, ID), ChangePrimaryKey(A, ("id",))]),
    ("ALTER TABLE a MODIFY x bigint unsigned NOT NULL", [ModifyColumn(A, Column("x", "bigint unsigned", False, "0"))]),
    ("ALTER TABLE a MODIFY COLUMN x char(9) COLLATE utf8mb4_bin FIRST", [ModifyColumn(A, Column("x", "char(9)"))]),
    ("ALTER TABLE a RENAME COLUMN x TO y", [RenameColumn(A, "x", "y")]),
    ("ALTER TABLE a CHANGE x y int", CHANGED),
    ("ALTER TABLE a CHANGE COLUMN x x bigint", [ModifyColumn(A, Column("x", "bigint"))]),
    (
        "ALTER TABLE a CHANGE x y int, CHANGE y z bigint",
        [
            ModifyColumn(A, Column("x", "int")),
            ModifyColumn(A, Column("y", "bigint")),
            RenameColumn(A, "y", "z"),
            RenameColumn(A, "x", "y"),
        ],
    ),
    ("ALTER TABLE a DROP x", [DropColumn(A, "x")]),
    ("ALTER TABLE a DROP COLUMN IF EXISTS x CASCADE, DROP INDEX i, DROP FOREIGN KEY f", [DropColumn(A, "x")]),
    # All clauses of a statement name the columns from before.
    ("ALTER TABLE a ADD y int, RENAME COLUMN y TO z", [RenameColumn(A, "y", "z"), add("y", "int")]),
    (
        "ALTER TABLE a RENAME COLUMN x TO y, RENAME COLUMN y TO z",
        [RenameColumn(A, "y", "z"), RenameColumn(A, "x", "y")],
    ),
    (
        "ALTER TABLE a RENAME COLUMN x TO y, RENAME COLUMN y TO z, RENAME COLUMN z TO x",
        [RenameColumn(A, *names) for names in (("x", "x "), ("z", "x"), ("y", "z"), ("x ", "y"))],
    ),
    ("ALTER TABLE a RENAME COLUMN x TO y, DROP y", [DropColumn(A, "y"), RenameColumn(A, "x", "y")]),
    (
        "ALTER TABLE a RENAME COLUMN x TO y, MODIFY x bigint",
        [ModifyColumn(A, Column("x", "bigint")), RenameColumn(A, "x", "y")],
    ),
    ("ALTER TABLE a RENAME b, ADD x int", [X, RenameTable(((A, shop("b")),))]),
    ("ALTER TABLE a RENAME COLUMN x TO X", [RenameColumn(A, "x", "X")]),
    # Keys
    ("ALTER TABLE a DROP PRIMARY KEY", [ChangePrimaryKey(A, ())]),
    ("ALTER TABLE a DROP INDEX `PRIMARY`", [ChangePrimaryKey(A, ())]),
    ("DROP INDEX `PRIMARY` ON a", [ChangePrimaryKey(A, ())]),
    ("ALTER TABLE a ADD CONSTRAINT pk PRIMARY KEY USING BTREE (x, y(3) DESC)", [ChangePrimaryKey(A, ("x", "y"))]),
    ("ALTER TABLE a ADD PRIMARY KEY (y), DROP PRIMARY KEY", [ChangePrimaryKey(A, ("y",))]),
    (
        "CREATE TABLE a (x bigint /*T![auto_rand] AUTO_RANDOM(5) */ PRIMARY KEY)",
        [
            CreateTable(
                A, (Column("x", "bigint", False, unknown="AUTO_RANDOM assigns the values", primary=True),), ("x",)
            )
        ],
    ),
    # Tables
    ("TRUNCATE a", [TruncateTable(A)]),
    ("/* clean */ TRUNCATE TABLE shop.a", [TruncateTable(A)]),
    ("DROP TABLE IF EXISTS a, `b` /* generated by server */", [DropTable(A), DropTable(shop("b"))]),
    ("DROP TABLES a CASCADE", [DropTable(A)]),
    ("DROP SCHEMA IF EXISTS other", [DropDatabase("other")]),
    ("CREATE OR REPLACE DATABASE other", [DropDatabase("other")]),
    ("CREATE TABLE a (id int PRIMARY KEY)", [CreateTable(A, (ID,), ("id",))]),
    (
        "CREATE TABLE a (x int, y int, PRIMARY KEY (y, x), KEY k (x)) ENGINE=InnoDB CHARSET=utf8mb4 COMMENT='c'",
        [CreateTable(A, ints("x", "y"), ("y", "x"))],
    ),
    (
        "CREATE TABLE /*!32312 IF NOT EXISTS*/ a (x int) "
        "/*!50100 PARTITION BY RANGE (x) (PARTITION p VALUES LESS THAN MAXVALUE) */",
        [CreateTable(A, ints("x"), if_not_exists=True)],
    ),
    ("CREATE TABLE a LIKE b", [CreateTable(A, like=shop("b"))]),
    ("CREATE TABLE other.a LIKE b", [CreateTable(TableName("other", "a"), like=shop("b"))]),
    ("CREATE TABLE a (LIKE b)", [CreateTable(A, like=shop("b"))]),
    ("CREATE TABLE a AS SELECT 1 AS x", [CreateTable(A)]),
    ("CREATE TABLE a (x int) START TRANSACTION", [CreateTable(A, ints("x"))]),
    ("CREATE TABLE a (x int) IGNORE SELECT 1 AS x", [CreateTable(A, ints("x"))]),
    ("CREATE OR REPLACE TABLE a (x int)", [DropTable(A), CreateTable(A, ints("x"))]),
    (
        "CREATE TABLE a (id int PRIMARY KEY /*T![clustered_index] CLUSTERED */) /*T! SHARD_ROW_ID_BITS=4 */",
        [CreateTable(A, (ID,), ("id",))],
    ),
    (
        "CREATE TABLE a (d datetime) TTL = `d` + INTERVAL 3 DAY TTL_ENABLE = 'ON'",
        [CreateTable(A, (Column("d", "datetime"),))],
    ),
    ("CREATE TABLE a (x int /*!80023 INVISIBLE */)", [CreateTable(A, ints("x"))]),
    ("CREATE TABLE a (`vector` vector(3), VECTOR INDEX ((x)))", [CreateTable(A, (Column("vector", "vector(3)"),))]),
    # gh-ost and pt-online-schema-change, in the forms of their sources
    (
        "rename /* gh-ost */ table `shop`.`a` to `shop`.`_a_del`, `shop`.`_a_gho` to `shop`.`a`",
        [RenameTable(((A, shop("_a_del")), (shop("_a_gho"), A)))],
    ),
    ("create /* gh-ost */ table `shop`.`_a_gho` like `shop`.`a`", [CreateTable(shop("_a_gho"), like=A)]),
    ("alter /* gh-ost */ table `shop`.`_a_gho` ADD COLUMN x int", [AddColumn(shop("_a_gho"), X.column)]),
    ("alter /* gh-ost */ table `shop`.`_a_gho` AUTO_INCREMENT=7", []),
    ("alter /* gh-ost */ table `shop`.`_a_gho` rename `a`", [NotFollowed("", (shop("_a_gho"), A))]),
    ("drop /* gh-ost */ table if exists `shop`.`_a_ghc`", [DropTable(shop("_a_ghc"))]),
    ("ALTER /* gh-ost */ TABLE `shop`.`a` ADD COLUMN x int, ALGORITHM=INSTANT", [X]),
    (
        "RENAME TABLE `shop`.`a` TO `shop`.`_a_old`, `shop`.`_a_new` TO `shop`.`a`",
        [RenameTable(((A, shop("_a_old")), (shop("_a_new"), A)))],
    ),
    ("DROP TABLE IF EXISTS `shop`.`_a_old`", [DropTable(shop("_a_old"))]),
    ("RENAME TABLES a TO b", [RenameTable(((A, shop("b")),))]),
    # Several statements
    ("ALTER TABLE a ADD x int; DROP TABLE b;", [X, DropTable(shop("b"))]),
    ("USE other; TRUNCATE a", [TruncateTable(TableName("other", "a"))]),
    ("/* ApplicationName=DBeaver; */ TRUNCATE a -- the end\n # more", [TruncateTable(A)]),
]

NO_EFFECT = [
    "",
    " ;; /* nothing */ ; -- here",
    "ALTER TABLE a ADD INDEX i (x)",
    "ALTER TABLE a ADD FULLTEXT KEY i (x) WITH PARSER ngram",
    "ALTER TABLE a ADD UNIQUE (x), DROP KEY j",
    "ALTER TABLE a ADD CONSTRAINT fk FOREIGN KEY (x) REFERENCES b (y)",
    "ALTER TABLE a ADD CONSTRAINT CHECK (x > 1)",
    "ALTER TABLE a DROP CONSTRAINT c, DROP CHECK d",
    "ALTER TABLE a RENAME INDEX i TO j",
    "ALTER TABLE a ALTER COLUMN x SET DEFAULT 5",
    "ALTER TABLE a ALTER x DROP DEFAULT, ALTER INDEX i INVISIBLE",
    "ALTER TABLE a COMMENT = 'x', AUTO_INCREMENT = 5",
    "ALTER TABLE a ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    "ALTER TABLE a DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin",
    "ALTER TABLE a DISABLE KEYS",
    "ALTER TABLE a FORCE",
    "ALTER TABLE a ORDER BY x DESC",
    "ALTER TABLE a ORDER BY a.x ASC, y, shop.a.z DESC, FORCE",
    "ALTER TABLE a CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "ALTER TABLE a UPGRADE PARTITIONING",
    "ALTER TABLE a ADD SYSTEM VERSIONING",
    "ALTER TABLE a ADD PARTITION (PARTITION p VALUES LESS THAN (5))",
    "ALTER TABLE a REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (5), PARTITION r VALUES LESS THAN (9))",
    "ALTER TABLE a ANALYZE PARTITION p, q",
    "ALTER TABLE a REMOVE PARTITIONING",
    "ALTER TABLE a PARTITION BY KEY (x) PARTITIONS 3",
    "ALTER TABLE a SET TIFLASH REPLICA 2",
    "ALTER TABLE a PLACEMENT POLICY = p",
    "CREATE UNIQUE INDEX i ON a (x)",
    "DROP INDEX i ON a",
    "CREATE DATABASE IF NOT EXISTS d CHARACTER SET utf8mb4",
    "ALTER DATABASE d COLLATE utf8mb4_bin",
    "CREATE OR REPLACE ALGORITHM=UNDEFINED DEFINER=`root`@`%` SQL SECURITY DEFINER VIEW v AS SELECT 1",
    "DROP VIEW v",
    "CREATE DEFINER='root'@'localhost' PROCEDURE p() BEGIN DELETE FROM a; DROP TABLE a; END",
    "CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET NEW.x = 1; DROP TABLE a",
    "ALTER EVENT e DISABLE",
    "CREATE TEMPORARY TABLE a (x int)",
    "DROP TEMPORARY TABLE IF EXISTS a",
    "CREATE USER u IDENTIFIED BY 'secret; DROP TABLE a'",
    "GRANT ALL ON *.* TO 'u'@'%'",
    "ANALYZE NO_WRITE_TO_BINLOG TABLE a",
    "OPTIMIZE TABLE a",
    "SET NAMES utf8mb4",
    "FLUSH TABLES",
    "XA COMMIT X'67',X'',1",
    "BEGIN",
]

NOT_FOLLOWED = [
    ("ALTER TABLE a TRUNCATE PARTITION p", ["a"]),
    ("ALTER TABLE a DROP PARTITION p, q", ["a"]),
    ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b WITHOUT VALIDATION", ["a", "b"]),
    ("ALTER TABLE a CONVERT PARTITION p TO TABLE b", ["a", "b"]),
    ("ALTER TABLE a CONVERT TABLE b TO PARTITION p VALUES LESS THAN (5)", ["a", "b"]),
    ("ALTER TABLE a IMPORT TABLESPACE", ["a"]),
    ("ALTER TABLE a CONVERT TO CHARACTER SET utf8 COLLATE utf8_bin", ["a"]),
    ("ALTER TABLE a CONVERT TO CHARACTER SET DEFAULT", ["a"]),
    ("ALTER TABLE a ENGINE = BLACKHOLE", ["a"]),
    ("ALTER TABLE a COMMENT='x', ENGINE=BLACKHOLE", ["a"]),
    ("ALTER TABLE a FIRST PARTITION LESS THAN (5)", ["a"]),
    ("ALTER TABLE a RENAME COLUMN x TO y, RENAME COLUMN x TO z", ["a"]),
    ("ALTER TABLE a ADD x mytype", ["a"]),
    ("ALTER TABLE a ADD x int NOT NULL UNHEARD", ["a"]),
    ("ALTER TABLE a ADD x int,", ["a"]),
    ("ALTER TABLE a ADD x varchar", ["a"]),
    ("ALTER TABLE a ADD x int(1,2)", ["a"]),
    ("ALTER TABLE a ADD x enum()", ["a"]),
    ("ALTER TABLE a ADD x int DEFAULT 1 + 2", ["a"]),
    ("ALTER TABLE a FOO BAR", ["a"]),
    ("ALTER TABLE a UNION = (b, c)", ["a"]),
    ("ALTER TABLE a /*!80099 ADD y int, */ ADD x int", ["a"]),
    ("ALTER TABLE a ADD x int /*M! NOT NULL */", ["a"]),
    ("ALTER TABLE a ADD x int /*!80000NOT NULL */", []),
    ("RENAME TABLE a TO b /*M! , c TO d */", ["a", "b", "c", "d"]),
    ("ALTER IGNORE TABLE a ADD UNIQUE (x)", []),
    ("ALTER TABLE other.a RENAME b", ["other.a", "b"]),
    ("ALTER TABLE other.a EXCHANGE PARTITION p WITH TABLE b", ["other.a", "b"]),
    ("CREATE TABLE a ...", []),
    ("CREATE TABLE a (x int) UNION=(b)", ["a"]),
    ("CREATE TABLE a", ["a"]),
    ("DROP TABLE", []),
    ("DROP TABLE a b", ["a"]),
    ("RENAME TABLE a", ["a"]),
    ("RENAME TABLE a TO b WHATEVER, c TO d", None),
    ("ALTER TABLE a ADD x whatever, RENAME TO b", ["a", "b"]),
    ("TRUNCATE a, b", ["a"]),
    ("INSERT INTO a VALUES (1)", ["a"]),
    ("REPLACE a SET x = 1", ["a"]),
    ("UPDATE a SET x = 1", ["a"]),
    ("UPDATE a JOIN b SET a.x = 1, b.x = 2", []),
    ("DELETE FROM a WHERE x = 1", ["a"]),
    ("DELETE a, b FROM a JOIN b", []),
    ("LOAD DATA INFILE 'f' INTO TABLE a", []),
    ("CALL p()", []),
    ("WITH c AS (SELECT 1) DELETE FROM a", []),
    ("SET STATEMENT max_statement_time=5 FOR DROP TABLE a", []),
    ("BEGIN NOT ATOMIC DELETE FROM a; END", None),
    ("ANALYZE FORMAT=JSON DELETE FROM a", []),
    ("RECOVER TABLE a", ["a"]),
    ("FLASHBACK TABLE a TO b", ["a", "b"]),
    ("FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01 00:00:00'", []),
    ("SELECT 1", []),
    ("DROP TABLE 'a'", []),
    ("DROP TABLE a /* not closed", []),
    ("DROP TABLE a, 'b", []),
    ("DROP TABLE a /*! ,b", []),
    ("DROP\u3000TABLE a", []),
    ("DROP TABLE a {# , b #}", []),
    ("ALTER TABLE a ADD x int DEFAULT '\\', ADD y int COMMENT ''", []),
    ("(" * 5000, []),
    ("ALTER TABLE a " + "ADD (" * 2000, None),
    ("x" * (MAX_LENGTH + 1), []),
]


@pytest.mark.parametrize(("statement", "actions"), FOLLOWED, ids=[statement for statement, _ in FOLLOWED])
def test_followed(statement: str, actions: list[Action]) -> None:
    found = read_statements(statement, "shop")
    assert [NotFollowed("", a.tables) if isinstance(a, NotFollowed) else a for a in found] == actions


@pytest.mark.parametrize("statement", NO_EFFECT)
def test_without_an_effect_on_rows_and_columns(statement: str) -> None:
    assert read_statements(statement, "shop") == []


@pytest.mark.parametrize(("statement", "tables"), NOT_FOLLOWED, ids=[text[:60] for text, _ in NOT_FOLLOWED])
def test_not_followed(statement: str, tables: list[str] | None) -> None:
    found = read_statements(statement, "shop")
    assert found
    for action in found:
        assert isinstance(action, NotFollowed)
        assert action.reason
    if tables is not None:
        names = [
            table.table if table.database == "shop" else f"{table.database}.{table.table}" for table in found[0].tables
        ]
        assert [*dict.fromkeys(names)] == tables


def test_a_statement_that_is_not_followed_does_not_stop_the_others() -> None:
    before, not_followed, after = read_statements("TRUNCATE a; ALTER TABLE b FOO; TRUNCATE c", "shop")
    assert (before, after) == (TruncateTable(A), TruncateTable(shop("c")))
    assert isinstance(not_followed, NotFollowed)


def test_without_sqlglot(monkeypatch: pytest.MonkeyPatch) -> None:
    _tokenizer_class.cache_clear()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "sqlglot", None)
        with pytest.raises(ImportError, match=r"pip install 'towpath\[ddl\]'"):
            read_statements("")
    assert read_statements("") == []


def test_without_a_default_database() -> None:
    assert read_statements("TRUNCATE a") == [TruncateTable(TableName(None, "a"))]


# The type as MySQL names it, and the value of existing rows: the manual's chapters on data types and their defaults.
DIGITS = "1234567890123456789012345678901234567"
VALUES: list[tuple[str, str, Value]] = [
    ("int NOT NULL", "int", "0"),
    ("integer(5) zerofill DEFAULT '007'", "int(5) unsigned zerofill", "7"),
    ("int8 DEFAULT -5", "bigint", "-5"),
    ("int DEFAULT (+5)", "int", "5"),
    ("int DEFAULT _utf8mb4' 5\t'", "int", "5"),
    ('decimal(8,2) DEFAULT _UTF8MB4" 1.5 "', "decimal(8,2)", "1.50"),
    ("double DEFAULT ' 1e2 '", "double", "1e2"),
    ("bigint unsigned DEFAULT 0x41", "bigint unsigned", "65"),
    ("int DEFAULT b'101'", "int", "5"),
    ("bool NOT NULL DEFAULT TRUE", "tinyint(1)", "1"),
    ("boolean", "tinyint(1)", None),
    ("decimal NOT NULL", "decimal(10,0)", "0"),
    ("dec(5) DEFAULT 3", "decimal(5,0)", "3"),
    ("numeric(10,2) unsigned NOT NULL", "decimal(10,2) unsigned", "0.00"),
    ("decimal(10,2) DEFAULT '1.5'", "decimal(10,2)", "1.50"),
    ("decimal(65,2) DEFAULT -1234567890123456789012345678901234567.5", "decimal(65,2)", f"-{DIGITS}.50"),
    ("double precision DEFAULT 1.5e3", "double", "1.5e3"),
    ("real NOT NULL", "double", "0"),
    ("float(10) DEFAULT '0.5'", "float", "0.5"),
    ("float(30)", "double", None),
    ("bit DEFAULT b'1'", "bit(1)", "1"),
    ("bit(9) NOT NULL", "bit(9)", "0"),
    ("bit(16) DEFAULT 0x0102", "bit(16)", "258"),
    ("varchar(9) NOT NULL", "varchar(9)", ""),
    ("varchar(9) DEFAULT 'it''s \\n'", "varchar(9)", "it's \n"),
    ('varchar(9) DEFAULT "x, y"', "varchar(9)", "x, y"),
    ("varchar(9) DEFAULT _utf8mb4'é'", "varchar(9)", "é"),
    ("varchar(9) DEFAULT N'x'", "varchar(9)", "x"),
    ("varchar(9) DEFAULT 5", "varchar(9)", "5"),
    ("varchar(9) DEFAULT 0x4142", "varchar(9)", "AB"),
    ("character varying(9) character set utf8mb4 collate utf8mb4_bin", "varchar(9)", None),
    ("national varchar(9)", "varchar(9)", None),
    ("char DEFAULT 'x '", "char(1)", "x"),
    ("long varchar", "mediumtext", None),
    ("text(5) DEFAULT ('abc')", "text", "abc"),
    ("varchar(9) CHARSET binary DEFAULT 'x'", "varbinary(9)", b"x"),
    ("binary(3) DEFAULT 'a'", "binary(3)", b"a\0\0"),
    ("binary NOT NULL", "binary(1)", b"\0"),
    ("char(2) byte NOT NULL", "binary(2)", b"\0\0"),
    ("varbinary(3) DEFAULT 0x414", "varbinary(3)", b"\x04\x14"),
    ("blob", "blob", None),
    ("enum('a,b','c''d') NOT NULL", "enum('a,b','c''d')", "a,b"),
    ("enum('x','Y ') DEFAULT 'y'", "enum('x','Y')", "Y"),
    ("enum('a','\\\\') DEFAULT 2", "enum('a','\\\\')", "\\"),
    ("set('a','b') NOT NULL DEFAULT 'b,a'", "set('a','b')", "a,b"),
    ("set('a','b') NOT NULL", "set('a','b')", ""),
    ("date DEFAULT '2020-01-31'", "date", "2020-01-31"),
    ("date NOT NULL", "date", "0000-00-00"),
    ("datetime(3) NOT NULL", "datetime(3)", "0000-00-00 00:00:00.000"),
    ("datetime DEFAULT 0", "datetime", "0000-00-00 00:00:00"),
    ("datetime(2) DEFAULT '2020-01-31'", "datetime(2)", "2020-01-31 00:00:00.00"),
    ("datetime DEFAULT TIMESTAMP '2020-01-31 01:02:03'", "datetime", "2020-01-31 01:02:03"),
    ("time NOT NULL", "time", "00:00:00"),
    ("time(1) DEFAULT '-838:59:59'", "time(1)", "-838:59:59.0"),
    ("year(4) NOT NULL", "year", "0000"),
    ("year DEFAULT 2020", "year", "2020"),
    ("timestamp NULL", "timestamp", None),
    ("timestamp NOT NULL DEFAULT '0000-00-00 00:00:00'", "timestamp", "0000-00-00 00:00:00"),
    ("json", "json", None),
    ("point SRID 4326", "point", None),
    ("geometrycollection", "geometrycollection", None),
]

UNKNOWN = [
    "int NOT NULL AUTO_INCREMENT UNIQUE",
    "bigint AUTO_RANDOM(5)",
    "serial",
    "int GENERATED ALWAYS AS (a + 1) STORED NOT NULL",
    "int AS (a) VIRTUAL",
    "int DEFAULT (1 + 2)",
    "int DEFAULT 1.5",
    "int DEFAULT 'x'",
    "int DEFAULT '1 2'",
    "bit(8) DEFAULT 'a'",
    "decimal(10,2) DEFAULT 1.005",
    "decimal(10,2) DEFAULT 1e2",
    "varchar(36) DEFAULT (uuid())",
    "varchar(36) DEFAULT uuid()",
    "varchar(9) DEFAULT 007",
    "varbinary(9) DEFAULT 'é'",
    "enum('a') DEFAULT 'b'",
    "datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
    "datetime(3) DEFAULT NOW(3)",
    "datetime DEFAULT '2020-1-1'",
    "datetime DEFAULT '2020-01-01 00:00:00.5'",
    "date DEFAULT 20200101",
    "timestamp",
    "timestamp NOT NULL",
    "timestamp DEFAULT '2020-01-01 00:00:00'",
    "json NOT NULL",
    "json DEFAULT ('[]')",
    "point NOT NULL",
    "int DEFAULT 0x" + "41" * 5000,
]


def added(definition: str) -> Column:
    (action,) = read_statements(f"ALTER TABLE a ADD x {definition}", "shop")
    assert isinstance(action, AddColumn)
    return action.column


@pytest.mark.parametrize(("definition", "type_", "initial"), VALUES, ids=[row[0] for row in VALUES])
def test_types_and_values_of_existing_rows(definition: str, type_: str, initial: Value) -> None:
    column = added(definition)
    assert (column.type, column.initial, column.unknown) == (type_, initial, None)


@pytest.mark.parametrize("definition", UNKNOWN, ids=[definition[:60] for definition in UNKNOWN])
def test_values_that_are_not_known(definition: str) -> None:
    column = added(definition)
    assert column.unknown
    assert column.initial is None


def test_the_decoder_knows_the_types() -> None:
    """The types are those that messages declare: `infer_schema` gives one that is not text for all but texts."""
    for definition, type_, _ in VALUES:
        message = {"type": "INSERT", "database": "d", "table": "a", "data": [{"x": None}], "mysqlType": {"x": type_}}
        batch = pa.record_batch({"value": [json.dumps(message).encode()]})
        (field,) = towpath.infer_schema(batch, "canal-json")
        is_text = type_.startswith(("char", "varchar", "text", "mediumtext", "enum", "set", "json", "decimal(65"))
        assert pa.types.is_string(field.type) == is_text, definition


def test_sqlglots_own_parser_agrees() -> None:
    """Of the statements that it parses too, the names of added columns and of tables are the same."""
    compared = 0
    for statement, actions in FOLLOWED:
        columns = [action.column.name for action in actions if isinstance(action, AddColumn)]
        try:
            parsed = sqlglot.parse_one(statement, dialect="mysql")
        except sqlglot.ParseError:
            continue
        if isinstance(parsed, exp.Alter) and columns and not list(parsed.find_all(exp.RenameColumn)):
            assert [column.name for column in parsed.args["actions"] if isinstance(column, exp.ColumnDef)] == columns
            compared += 1
        elif isinstance(parsed, exp.Drop) and parsed.args["kind"] == "TABLE":
            assert [DropTable(shop(table.name)) for table in parsed.args["tables"]] == actions
            compared += 1
    assert compared > 15


@pytest.mark.parametrize("between", [" /* ; ' \" ` */ ", "\n", "-- , '\n", "\t# (\r\n", "/**/ "])
def test_comments_and_blanks_between_tokens_change_nothing(between: str) -> None:
    for statement, actions in FOLLOWED:
        raw = between.join(token.raw for token in tokenize(statement))
        if "*/" not in statement:
            found = read_statements(between + raw + between, "shop")
            assert [NotFollowed("", a.tables) if isinstance(a, NotFollowed) else a for a in found] == actions


QUOTES = ("'", '"', "`", "(", ")", "/*", "/*!", "/*!50100", "/*!80000 ", "/*T![x]", "*/", "--", "#", "{#")
PIECES = (
    *QUOTES,
    ",",
    ";",
    "\n",
    "\\",
    "\0",
    ".",
    "=",
    "@",
    " DEFAULT ",
    " int ",
    " 0x",
    " b'",
    "\u3000",
    "😀",
    "\ud800",
)


def test_nothing_in_a_statement_raises() -> None:
    random_ = random.Random(20261122)
    statements = [text for text, _ in FOLLOWED] + NO_EFFECT + [text for text, _ in NOT_FOLLOWED if len(text) < 200]
    statements += [f"ALTER TABLE a ADD x {definition}" for definition, *_ in VALUES]
    for _ in range(4000):
        text = random_.choice(statements)
        for _ in range(random_.randint(1, 4)):
            at, end = sorted((random_.randint(0, len(text)), random_.randint(0, len(text))))
            piece = random_.choice([*PIECES, random_.choice(statements)[:40]])
            text = text[:at] + piece + text[random_.choice((at, at + 1, end)) :]
        for action in read_statements(text, "shop"):
            assert isinstance(action, Action)


NAMES = [(database, table) for database in ("shop", "other", "third") for table in "abcdef"]
Pair = tuple[str, str]


@dataclass
class Sent:
    """A statement about several tables as a server logs it, and the message of a producer."""

    text: str
    database: str
    table: str
    is_clear: bool
    """Whether the statement is in MySQL's grammar, and the message says which tables it names."""
    expected: list[Action]
    tables: set[Pair]


def sent(random_: random.Random) -> Sent:
    """One of n tables or pairs, each with its database or not, quoted or not, with comments and words between."""
    session = "shop"
    names = random_.sample(NAMES, 2 * random_.randint(1, 3))
    chance = random_.choice((0, 0.5, 1))
    is_qualified = [random_.random() < chance or database != session for database, _ in names]
    spelled = [_spelled(random_, name, full) for name, full in zip(names, is_qualified, strict=True)]
    verb = random_.choice(("DROP TABLE", "RENAME TABLE"))
    exists = random_.choice(("", "IF EXISTS"))
    if verb == "DROP TABLE":
        lists = [[one] for one in spelled]
        expected: list[Action] = [DropTable(TableName(*name)) for name in names]
        header = random_.choice(names)  # Maxwell sends one for each, canal one for the first
    else:
        wait = random_.choice(("", "WAIT 5", "NOWAIT"))
        lists = [[old, wait, "TO", new] for old, new in zip(spelled[::2], spelled[1::2], strict=True)]
        expected = [
            RenameTable(tuple((TableName(*a), TableName(*b)) for a, b in zip(names[::2], names[1::2], strict=True)))
        ]
        header = names[random_.choice((0, 1))]
    words = [*verb.split(), exists, *lists[0], *(word for one in lists[1:] for word in (",", *one))]
    is_odd = random_.random() < 0.4
    if is_odd:
        words.insert(random_.randint(0, len(words)), "WHATEVER")
    between = ("", "/* , z */", "\n", "/* generated by server */")
    text = " ".join(f"{word} {random_.choice(between)}" for word in words if word)
    is_clear = not is_odd and (all(is_qualified) or (not any(is_qualified) and header[0] == session))
    return Sent(text, *header, is_clear, expected, set(names))


def _spelled(random_: random.Random, name: Pair, full: bool) -> str:
    parts = [f"`{one}`" if random_.random() < 0.5 else one for one in (name if full else name[1:])]
    return random_.choice((".", " . ")).join(parts)


def test_each_table_of_a_statement_is_followed_or_not_ok() -> None:
    random_ = random.Random(53)
    clear = 0
    for _ in range(3000):
        one = sent(random_)
        actions = tuple(read_statements(one.text, one.database, one.table))
        place = Place({})
        statement = completed(
            Statement(place, one.text, one.database, one.table, actions), lambda: NAMES, lambda *_: []
        )
        if list(statement.actions) == one.expected:
            clear += 1
            continue
        assert not one.is_clear, one.text
        assert all(isinstance(action, NotFollowed) for action in statement.actions), one.text
        assert statement.tables >= one.tables, (one.text, one.database)
        if "." not in one.text:  # other databases have tables of these names, too
            assert {database for database, _ in statement.tables} == {one.database}, one.text
    assert clear > 1000


def test_which_statements_may_change_a_table_whose_name_differs_in_case() -> None:
    def others(text: str) -> list[tuple[TableName, ...]]:
        statement = Statement(Place({}), text, "shop", "T", tuple(read_statements(text, "shop", "T")))
        found = completed(statement, list, lambda database, table: [(database, table.lower())])
        return [one.tables for one in found.actions if isinstance(one, NotFollowed)]

    for text in ("ALTER TABLE T ADD COLUMN n int", "TRUNCATE TABLE T", "DROP TABLE T", "RENAME TABLE T TO u"):
        assert others(text) == [(shop("t"),)]
    for text in ("ALTER TABLE T ADD INDEX (n)", "CREATE TABLE T (id int PRIMARY KEY)", "DROP TABLE t"):
        assert others(text) == []


def test_a_database_is_dropped_in_a_way_that_is_not_known() -> None:
    text = "DROP DATABASE other WHATEVER"
    statement = Statement(Place({}), text, "shop", None, tuple(read_statements(text, "shop")))
    assert completed(statement, lambda: NAMES, lambda *_: []).tables == {name for name in NAMES if name[0] == "other"}


def test_a_new_name_needs_no_target() -> None:
    """The rows of a table that gets a name come later, when nothing else says that older ones are missing."""
    random_ = random.Random(54)
    for _ in range(1000):
        one = sent(random_)
        if isinstance(one.expected[0], RenameTable):
            actions = tuple(read_statements(one.text, one.database, one.table))
            statement = Statement(Place({}), one.text, one.database, one.table, actions)
            new = {(pair[1].database, pair[1].table) for pair in one.expected[0].pairs}
            named = {name for name in new if name in statement.tables or (name[0] == "shop" and one.database != "shop")}
            assert named == new, one.text
