//! MySQL's declared types, and parsing of its text values. It does not depend on message formats or Arrow arrays.

pub(crate) mod charset;
pub(crate) mod number;
pub(crate) mod short_text;
pub(crate) mod statement;
pub(crate) mod temporal;
pub(crate) mod types;
pub(crate) mod zone;
