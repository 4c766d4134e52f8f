//! Checks of the fuzz targets. libFuzzer calls these functions with its inputs, `cargo test` with the kept ones.

mod avro;
#[path = "../../differential/captures.rs"]
#[allow(dead_code, reason = "the tests of both readers use more of it")]
mod captures;
mod compression;
mod dialects;
mod files;
mod input;
mod json;
mod options;
mod protobuf;
mod schemas;
mod seeds;
mod values;

use towpath::DIALECTS;

pub use seeds::seeds;

/// Checks an input. Panics if a property does not hold.
type Check = fn(&[u8]);

/// Targets besides the dialects. Each dialect is a target under its name.
const OTHERS: &[(&str, Check)] = &[
    ("auto", dialects::check_auto),
    ("compression", compression::check),
    ("cut", files::check),
    ("ddl", schemas::check_ddl),
    ("infer-schema", schemas::check_infer),
    ("json", json::check),
    ("protobuf", protobuf::check),
    ("avro", avro::check),
    ("values", values::check),
];

/// Returns the names of all targets.
pub fn targets() -> impl Iterator<Item = &'static str> {
    DIALECTS
        .iter()
        .map(|dialect| dialect.name)
        .chain(OTHERS.iter().map(|(name, _)| *name))
}

/// Checks an input of a target. Panics if a property does not hold.
pub fn check(target: &str, data: &[u8]) {
    match OTHERS.iter().find(|(name, _)| *name == target) {
        Some((_, check)) => check(data),
        None => dialects::check(target, data),
    }
}
