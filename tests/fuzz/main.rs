//! Replays the kept inputs of the fuzz targets: those that libFuzzer found to reach different code, and those that once failed.

mod checks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The inputs of a target in a folder beside this file.
fn inputs(folder: &str, target: &str) -> Vec<PathBuf> {
    let folder = Path::new("tests/fuzz").join(folder).join(target);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut inputs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    inputs
}

fn replay(target: &str, name: &str, data: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| checks::check(target, data))).is_err() {
        panic!("{target} fails with {name}");
    }
}

#[test]
fn kept_inputs_pass() {
    for target in checks::targets() {
        for path in ["corpus", "regressions"].iter().flat_map(|folder| inputs(folder, target)) {
            replay(target, &path.display().to_string(), &std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn golden_messages_pass() {
    for target in checks::targets() {
        for (at, seed) in checks::seeds(target, 2).iter().enumerate() {
            replay(target, &format!("seed {at}"), seed);
        }
    }
}

/// Kept inputs of no target would never be replayed.
#[test]
fn every_target_has_a_binary_and_a_corpus() {
    let manifest = std::fs::read_to_string("tests/fuzz/Cargo.toml").unwrap();
    let binaries: Vec<&str> = manifest.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).skip(1).collect();
    assert_eq!(binaries, checks::targets().collect::<Vec<_>>());
    for folder in ["corpus", "regressions"] {
        for entry in std::fs::read_dir(Path::new("tests/fuzz").join(folder)).into_iter().flatten() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(binaries.contains(&name.as_str()), "{folder}/{name}");
        }
    }
}
