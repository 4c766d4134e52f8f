//! Conversion of events to a record batch: the output rows and columns of a change, and their builders.

pub(crate) mod batch;
pub(crate) mod budget;
mod builders;
pub(crate) mod changes;
pub(crate) mod converter;
pub(crate) mod envelope;
pub(crate) mod fields;
pub(crate) mod images;
mod maps;
pub(crate) mod metrics;
pub(crate) mod plan;
pub(crate) mod row;
