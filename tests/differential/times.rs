//! Event times. For any number that a producer writes, the time is a date of the calendar or an error: never null, and
//! never a date that readers cannot represent.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use towpath::Options;

use crate::batches::Message;
use crate::golden::plain;
use crate::invariants::{decode, decoder, input};
use crate::properties::config;
use crate::tables::pick;

const CASES: u32 = 150;

const EDGES: [i64; 8] = [
    i64::MIN,
    i64::MAX,
    9_000_000_000_000_000_000,
    253_402_300_799_999,
    253_402_300_800_000,
    -62_135_596_800_000,
    -62_135_596_800_001,
    1_763_000_000_000,
];

fn message(millis: i64) -> Message {
    let text = format!(
        r#"{{"op":"c","ts_ms":1763000000000,"source":{{"db":"shop","table":"orders","ts_ms":{millis}}},"after":{{"id":1}}}}"#
    );
    Message {
        key: None,
        value: Some(text.into_bytes()),
    }
}

/// Returns the expected microseconds, from jiff's calendar.
fn wanted(millis: i64) -> Option<i64> {
    let epoch = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
    let time = epoch
        .checked_add(jiff::SignedDuration::from_millis(millis))
        .ok()?;
    (1..=9999).contains(&time.year()).then_some(millis * 1000)
}

fn times_and_errors(batch: &RecordBatch) -> Vec<(Option<i64>, Option<String>)> {
    let times = batch
        .column_by_name("event_time")
        .unwrap()
        .as_primitive::<TimestampMicrosecondType>();
    let errors = batch.column_by_name("error").unwrap().as_struct();
    let kinds = errors.column_by_name("kind").unwrap().as_string::<i32>();
    let kind = |at| (errors.is_valid(at)).then(|| kinds.value(at).to_owned());
    (0..batch.num_rows())
        .map(|at| (times.is_valid(at).then(|| times.value(at)), kind(at)))
        .collect()
}

#[test]
fn event_times_are_of_the_calendar() {
    let time = prop_oneof![
        any::<i64>(),
        any::<u8>().prop_map(|edge| pick(&EDGES, edge)),
        0..253_402_300_800_000_i64
    ];
    let config = config(CASES);
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&prop::collection::vec(time, 1..20), |times| {
        // Usual messages stand between the others, so that templates are tried.
        let times: Vec<i64> = times
            .into_iter()
            .filter(|time| *time != 0)
            .flat_map(|time| [1_763_000_000_000, time])
            .collect();
        let messages: Vec<Message> = times.iter().copied().map(message).collect();
        let options = Options {
            fields: Some(vec!["event_time".to_owned(), "error".to_owned()]),
            ..plain("debezium-json")
        };
        let batch = decode(&decoder(&options), &input(&messages))
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let wanted: Vec<_> = times
            .iter()
            .map(|time| wanted(*time))
            .map(|time| (time, time.is_none().then(|| "range".to_owned())))
            .collect();
        prop_assert_eq!(times_and_errors(&batch), wanted);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("seed {seed:?}: {error}");
    }
}
