//! In what the rows that TiCDC writes in Avro differ from Debezium's.

use super::connect_schema::Schema as ConnectSchema;
use crate::event::{Quirks, ValueFormat};
use crate::interner::Quoting;

pub(crate) const NAME: &str = "ticdc-avro";

pub(super) static QUIRKS: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Typed,
    quoting: Quoting::None,
};

/// The fields that TiCDC adds to a row, as those that Debezium's flattening adds.
const ADDED: [(&str, (&str, bool)); 6] = [
    ("_tidb_op", ("op", false)),
    // Not read: deletes have none, so changes with and without one would not be ordered by their offsets.
    ("_tidb_commit_ts", ("row", false)),
    ("_tidb_commit_physical_time", ("ts_ms", true)),
    // Of a row's checksum, which is not verified.
    ("_tidb_row_level_checksum", ("row", false)),
    ("_tidb_corrupted", ("row", false)),
    ("_tidb_checksum_version", ("row", false)),
];

/// The added field that a record's field is. Columns have a type of TiDB, whatever they are called.
pub(super) fn added(name: &str, declared: &ConnectSchema) -> Option<(&'static str, bool)> {
    let found = ADDED
        .iter()
        .find(|(added, _)| *added == name)
        .map(|(_, field)| *field);
    found.filter(|_| declared.tidb_type().is_none())
}

/// Returns the database and the table in the name of a row's schema: `namespace.database.table`.
pub(super) fn names_of(name: &str) -> (Option<String>, Option<String>) {
    let mut parts = name.splitn(3, '.').skip(1);
    let (database, table) = (parts.next(), parts.next());
    (
        table.and(database).map(str::to_owned),
        table.or(database).map(str::to_owned),
    )
}
