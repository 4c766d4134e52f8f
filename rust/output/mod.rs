//! From events to a record batch: which rows and columns a change gives, and how they are filled.

pub(crate) mod batch;
mod builders;
pub(crate) mod changes;
pub(crate) mod envelope;
pub(crate) mod fields;
pub(crate) mod images;
pub(crate) mod metrics;
pub(crate) mod plan;
pub(crate) mod row;
