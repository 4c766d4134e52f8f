//! Counters of a decoder.

use std::collections::BTreeMap;

/// Counters of a decoder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Input messages.
    pub messages: u64,
    /// Output rows.
    pub rows: u64,
    /// Changes and other messages of databases and tables that the filter excludes.
    pub filtered: u64,
    /// Changes and messages that `DROPMALFORMED` dropped.
    pub dropped: u64,
    /// Errors of rows and messages, by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Output rows whose message lacks a column of the table, by column.
    pub missing: BTreeMap<String, u64>,
    /// Output cells that are null because the value is a zero date, by column. Includes rows that `DROPMALFORMED`
    /// drops.
    pub zero_dates: BTreeMap<String, u64>,
    /// Output rows that have a row image.
    pub image_rows: u64,
    /// Input messages that a template decoded. A performance counter: the output does not depend on it.
    pub templated: u64,
}

impl Metrics {
    pub(crate) fn add(&mut self, other: &Metrics) {
        self.messages += other.messages;
        self.rows += other.rows;
        self.filtered += other.filtered;
        self.dropped += other.dropped;
        self.templated += other.templated;
        self.image_rows += other.image_rows;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
        for (column, count) in &other.missing {
            *self.missing.entry(column.clone()).or_default() += count;
        }
        for (column, count) in &other.zero_dates {
            *self.zero_dates.entry(column.clone()).or_default() += count;
        }
    }

    /// Returns the columns that every row image so far lacks.
    pub fn absent_columns(&self) -> impl Iterator<Item = &str> {
        self.missing
            .iter()
            .filter(|(_, count)| **count == self.image_rows)
            .map(|(column, _)| column.as_str())
    }
}
