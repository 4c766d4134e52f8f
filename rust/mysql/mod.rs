//! What MySQL declares, and how its text becomes a value. Nothing here knows a message format or Arrow's arrays.

pub(crate) mod charset;
pub(crate) mod number;
pub(crate) mod temporal;
pub(crate) mod types;
pub(crate) mod zone;
