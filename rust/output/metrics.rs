//! What is counted while a batch is built.

use std::collections::BTreeMap;

/// What a decoder has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Messages that came in.
    pub messages: u64,
    /// Rows that were put out.
    pub rows: u64,
    /// Changes and other messages of databases and tables that were not asked for.
    pub filtered: u64,
    /// Changes and messages that `DROPMALFORMED` dropped.
    pub dropped: u64,
    /// Errors of rows and messages, by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Messages that were read by a template, of those that came in: a figure of speed, which says nothing about the output.
    pub templated: u64,
}

impl Metrics {
    pub(crate) fn add(&mut self, other: &Metrics) {
        self.messages += other.messages;
        self.rows += other.rows;
        self.filtered += other.filtered;
        self.dropped += other.dropped;
        self.templated += other.templated;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
    }
}
