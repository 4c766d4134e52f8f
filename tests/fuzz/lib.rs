//! Fuzz targets of towpath for libFuzzer. `tests/fuzz/run.sh` runs all of them.

pub mod checks;

/// Defines the target with its binary's name. With `FUZZ_SEEDS`, it first writes its seeds into that folder.
#[macro_export]
macro_rules! target {
    () => {
        libfuzzer_sys::fuzz_target!(
            init: $crate::write_seeds(env!("CARGO_BIN_NAME")),
            |data: &[u8]| $crate::checks::check(env!("CARGO_BIN_NAME"), data)
        );
    };
}

/// Writes a target's seeds into the folder in `FUZZ_SEEDS`, one per file.
pub fn write_seeds(target: &str) {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else { return };
    for (at, seed) in checks::seeds(target, SEEDS).iter().enumerate() {
        let path = std::path::Path::new(&folder).join(format!("seed-{at}"));
        std::fs::write(&path, seed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// Number of messages of each capture that become seeds.
const SEEDS: usize = 40;
