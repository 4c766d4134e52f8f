//! A table's columns: parsed from DDL text, or inferred from the types that messages declare.

mod arrow_types;
pub(crate) mod ddl;
pub(crate) mod infer;
