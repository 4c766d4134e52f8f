//! Differences between TiCDC's rows in Avro and Debezium's.

use super::connect_schema::Schema as ConnectSchema;
use super::members::{self, Member};
use crate::event::{Quirks, ValueFormat};
use crate::interner::Quoting;

pub(crate) const NAME: &str = "ticdc-avro";

pub(super) static QUIRKS: Quirks = Quirks {
    dialect: NAME,
    declares_lengths: false,
    format: ValueFormat::Typed,
    quoting: Quoting::None,
};

/// Finds Debezium's member for a field that TiCDC adds to a row. Fields with a TiDB type are columns, whatever their
/// names.
pub(super) fn added(name: &str, declared: &ConnectSchema) -> Option<&'static Member> {
    if declared.tidb_type().is_some() {
        return None;
    }
    match name {
        "_tidb_op" => members::find("op"),
        "_tidb_commit_physical_time" => members::find("source.ts_ms"),
        // The commit time is not read: deletes lack it, so offsets would not order changes with it and changes without
        // it. Checksums are not verified.
        "_tidb_commit_ts"
        | "_tidb_row_level_checksum"
        | "_tidb_corrupted"
        | "_tidb_checksum_version" => Some(members::ignored()),
        _ => None,
    }
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
