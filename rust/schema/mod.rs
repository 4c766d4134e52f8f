//! A table's columns: parsed from DDL text, or from the types that messages declare.

pub(crate) mod arrow_types;
pub(crate) mod ddl;
