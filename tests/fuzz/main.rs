//! Replays the kept inputs of the fuzz targets: inputs that reach different code, and inputs that once failed.

mod checks;

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use flate2::read::GzDecoder;

const CORPUS: &str = "tests/fuzz/corpus";
const REGRESSIONS: &str = "tests/fuzz/regressions";

/// Returns the inputs in a target's archive, with their names; empty for a new target.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(archive) = File::open(format!("{CORPUS}/{target}.tar.gz")) else {
        return Vec::new();
    };
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let read = |mut input: tar::Entry<'_, GzDecoder<File>>| {
        let mut data = Vec::new();
        input.read_to_end(&mut data).unwrap();
        (input.path().unwrap().display().to_string(), data)
    };
    archive
        .entries()
        .unwrap()
        .map(|input| read(input.unwrap()))
        .collect()
}

/// Returns the inputs that made a target fail, with their names.
fn regressions(target: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = Path::new(REGRESSIONS).join(target).read_dir() else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect()
}

fn replay(target: &str, name: &str, data: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| checks::check(target, data))).is_err() {
        panic!("{target} fails with {name}");
    }
}

#[test]
fn kept_inputs_pass() {
    let mut count = 0;
    for target in checks::targets() {
        for (name, data) in corpus(target).into_iter().chain(regressions(target)) {
            replay(target, &name, &data);
            count += 1;
        }
    }
    assert!(count > 1000, "only {count} inputs were read");
}

#[test]
fn golden_messages_pass() {
    for target in checks::targets() {
        for (at, seed) in checks::seeds(target, 2).iter().enumerate() {
            replay(target, &format!("seed {at}"), seed);
        }
    }
}

/// Kept inputs without a target would never be replayed.
#[test]
fn every_target_has_a_binary_and_a_corpus() {
    let manifest = std::fs::read_to_string("tests/fuzz/Cargo.toml").unwrap();
    let binaries: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .skip(1)
        .collect();
    assert_eq!(binaries, checks::targets().collect::<Vec<_>>());
    for folder in [CORPUS, REGRESSIONS] {
        for entry in Path::new(folder).read_dir().unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let target = name.strip_suffix(".tar.gz").unwrap_or(&name);
            assert!(binaries.contains(&target), "{folder}/{name}");
        }
    }
}
