//! Random batches of every dialect under random options.

use std::cell::RefCell;
use std::collections::BTreeMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use towpath::{DIALECTS, Decoder, Kind, Mode, Options, Wire};

use crate::batches::{Batch, BatchDraw, Message, batch};
use crate::compare::{Compared, Difference, compare, compare_rest, report};
use crate::producers::Producer;
use crate::settings::{Feeding, SettingsDraw, records, settings};

/// Enough to find a plain mistake. `PROPTEST_CASES` sets more.
const CASES: u32 = 60;
/// Seed of the default run, which is the same each time. A run with `PROPTEST_CASES` has other cases each time.
const SEED: u64 = 20_261_121;

/// Returns the default configuration. The seed identifies a failure, so no file is written.
pub fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let is_asked = |name| std::env::var_os(name).is_some();
    if !is_asked("PROPTEST_CASES") {
        config.cases = cases;
        if config.rng_seed == RngSeed::Random {
            config.rng_seed = RngSeed::Fixed(SEED);
        }
    }
    if !is_asked("PROPTEST_MAX_SHRINK_ITERS") {
        (config.max_shrink_iters, config.max_shrink_time) = (4000, 60_000);
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(
            std::time::UNIX_EPOCH
                .elapsed()
                .map_or(0, |time| time.as_nanos() as u64),
        );
    }
    config
}

/// Compares the rows each time, and a decoder's other results sometimes.
fn check(
    options: &Options,
    messages: &[Message],
    feeding: Feeding,
) -> Result<Compared, Difference> {
    let compared = compare(options, messages, feeding)?;
    if messages.len().is_multiple_of(4) {
        compare_rest(options, messages)?;
    }
    Ok(compared)
}

fn both_readers_agree(name: &str, producers: Vec<Producer>) {
    let config = config(CASES);
    let seed = config.rng_seed;
    let total = RefCell::new(Compared::default());
    let outcome = TestRunner::new(config).run(
        &(batch(producers), settings()),
        |(batch, settings): (BatchDraw, SettingsDraw)| {
            let batch = batch.make();
            let (options, feeding) = settings.make(&batch);
            let compared = check(&options, &batch.messages, feeding)
                .map_err(|difference| TestCaseError::fail(format!("{difference:?}")))?;
            total.borrow_mut().add(compared);
            Ok(())
        },
    );
    println!("{name}: {}", total.borrow());
    match outcome {
        Ok(()) => {}
        Err(TestError::Abort(why)) => panic!("{name}: {why}"),
        Err(TestError::Fail(_, (batch, settings))) => {
            let batch = batch.make();
            let (options, feeding) = settings.make(&batch);
            let text = report(
                &options,
                &batch.messages,
                feeding,
                |options, messages, feeding| check(options, messages, feeding).map(drop),
            );
            panic!(
                "{name}: both readers differ, seed {seed:?}\n{text}\nwritten by {:?}",
                batch.forms
            );
        }
    }
}

#[test]
fn canal_json_is_read_alike() {
    both_readers_agree("canal-json", Producer::of("canal-json"));
}

#[test]
fn cloudcanal_json_is_read_alike() {
    both_readers_agree("cloudcanal-json", Producer::of("cloudcanal-json"));
}

#[test]
fn maxwell_json_is_read_alike() {
    both_readers_agree("maxwell-json", Producer::of("maxwell-json"));
}

#[test]
fn debezium_json_is_read_alike() {
    both_readers_agree("debezium-json", Producer::of("debezium-json"));
}

#[test]
fn river_json_is_read_alike() {
    both_readers_agree("river-json", Producer::of("river-json"));
}

#[test]
fn dialects_side_by_side_are_read_alike() {
    both_readers_agree("auto", Producer::ALL.to_vec());
}

#[test]
fn every_json_dialect_has_a_producer() {
    let without_template = ["ticdc-open", "ticdc-simple", "dms-json", "dataworks-json"];
    for dialect in DIALECTS
        .iter()
        .filter(|dialect| dialect.wire == Wire::Json && !without_template.contains(&dialect.name))
    {
        assert!(!Producer::of(dialect.name).is_empty(), "{}", dialect.name);
    }
}

/// The generators are useless if decoders refuse everything, or nothing.
#[test]
fn batches_have_all_kinds_of_rows_and_errors() {
    let mut seen = BTreeMap::new();
    let mut rows = [0usize; 2];
    for (batch, settings) in drawn(150) {
        let (options, _) = settings.make(&batch);
        let options = Options {
            mode: Mode::Permissive,
            fields: Some(fields_of(&options)),
            keep: Vec::new(),
            ..options
        };
        let decoded = Decoder::new(options.clone())
            .unwrap()
            .decode(&records(&batch.messages, None))
            .unwrap();
        let error = decoded.columns().last().unwrap().as_struct();
        rows[0] += decoded.num_rows();
        rows[1] += error.len() - error.null_count();
        let ops = decoded.column(0).as_string::<i32>().iter().flatten();
        let kinds = error["kind"].as_string::<i32>().iter().flatten();
        ops.chain(kinds)
            .for_each(|word| *seen.entry(word.to_owned()).or_insert(0) += 1);
    }
    println!("{} rows, {} with an error: {seen:?}", rows[0], rows[1]);
    let ops = [
        "insert",
        "update",
        "delete",
        "snapshot",
        "truncate",
        "ddl",
        "tombstone",
        "heartbeat",
        "query",
        "other",
        "error",
    ];
    let kinds = Kind::NAMES
        .iter()
        .map(|(name, _)| *name)
        .filter(|kind| !matches!(*kind, "depth" | "size" | "compression"));
    let missing: Vec<_> = ops
        .into_iter()
        .chain(kinds)
        .filter(|word| !seen.contains_key(*word))
        .collect();
    assert!(missing.is_empty(), "never made: {missing:?}");
    assert!(
        rows[1] * 10 > rows[0] && rows[1] * 2 < rows[0],
        "{} of {} rows have an error",
        rows[1],
        rows[0]
    );
}

/// Most messages must have the form of an earlier one, so that its template could read them.
#[test]
fn most_messages_resemble_an_earlier_one() {
    let mut counts = [0usize; 2];
    for (batch, _) in drawn(30) {
        let mut shapes = std::collections::HashSet::new();
        for message in &batch.messages {
            counts[0] += 1;
            counts[1] +=
                usize::from(!shapes.insert(shape(message.value.as_deref().unwrap_or_default())));
        }
    }
    println!("{} of {} messages", counts[1], counts[0]);
    assert!(
        counts[1] * 2 > counts[0],
        "{} of {} messages",
        counts[1],
        counts[0]
    );
}

/// Returns a message without its texts and digits, except the names.
fn shape(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let values = regex::Regex::new(r#":(null|true|false|-?[0-9.eE+-]+|"([^"\\]|\\.)*")"#).unwrap();
    values.replace_all(&text, ":_").into_owned()
}

/// Returns the same batches each time.
fn drawn(count: usize) -> impl Iterator<Item = (Batch, SettingsDraw)> {
    let mut runner = TestRunner::deterministic();
    let strategy = (batch(Producer::ALL.to_vec()), settings());
    (0..count).map(move |_| {
        let (batch, settings) = strategy.new_tree(&mut runner).unwrap().current();
        (batch.make(), settings)
    })
}

/// Returns the columns with the kind of row and its error.
fn fields_of(options: &Options) -> Vec<String> {
    let names = match options.layout {
        towpath::Layout::Change => ["op", "after", "error"],
        towpath::Layout::Changelog => ["_change_type", "_row", "_error"],
        towpath::Layout::Upsert => ["_op", "_row", "_error"],
    };
    names.map(String::from).to_vec()
}
