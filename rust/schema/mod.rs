//! A table's columns: as DDL text says them, and as messages declare them.

pub(crate) mod ddl;
pub(crate) mod infer;
