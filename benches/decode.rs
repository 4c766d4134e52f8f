//! `cargo bench`: towpath and other readers over the same messages, on one core.
//!
//! The figures are the thread's CPU time, as other work on the machine disturbs a wall clock more. The peers stop far
//! short of towpath's work: simd-json's tape and serde_json's `IgnoredAny` only look at the text, and derived structs
//! hold text, with no value converted and one image only.
//!
//! `decode fixed SHAPE WHAT TIMES` runs one of them a fixed number of times and prints nothing: for a profiler, or to
//! count instructions.

mod corpus;

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use arrow_array::BinaryArray;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use serde::Deserialize;
use serde::de::IgnoredAny;
use simd_json::{Buffers, INPUT_PADDING, Tape, fill_tape_padded};
use towpath::{Decoder, Options, TableSchema};

/// What Spark puts into one Arrow batch by default.
const MESSAGES: u64 = 10_000;
/// Enough for a stable count, and soon done under a simulator.
const FIXED_MESSAGES: u64 = 2_000;

const WIDE: &str = "id bigint, user_id bigint, order_no string, status tinyint, quantity int, total decimal(10,2), \
    address string, country string, remark string, shipped_on date, placed_at timestamp_ntz, updated_at timestamp";
const NARROW: &str = "id bigint, status tinyint, total decimal(10,2), updated_at timestamp";
const THREE: &str = "id bigint, total decimal(10,2), updated_at timestamp";

/// CPU time of this thread where the system tells it, else the wall's.
struct CpuTime;

impl CpuTime {
    /// Linux writes a thread's nanoseconds here, as of the last time it was scheduled: so yield first.
    fn nanos() -> Option<u64> {
        std::thread::yield_now();
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        statistics.split(' ').next()?.parse().ok()
    }
}

impl Measurement for CpuTime {
    type Intermediate = (Option<u64>, Instant);
    type Value = u64;

    fn start(&self) -> Self::Intermediate {
        (CpuTime::nanos(), Instant::now())
    }

    fn end(&self, (cpu, wall): Self::Intermediate) -> u64 {
        match (cpu, CpuTime::nanos()) {
            (Some(start), Some(end)) => end - start,
            _ => wall.elapsed().as_nanos() as u64,
        }
    }

    fn add(&self, one: &u64, other: &u64) -> u64 {
        one + other
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, nanos: &u64) -> f64 {
        *nanos as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// A way to read every message of a corpus.
type Way = Box<dyn FnMut(&BinaryArray)>;

/// towpath as its users call it: one batch in, one batch out.
fn towpath(schema: Option<&str>, fields: &[&str]) -> Way {
    let decoder = Decoder::new(Options {
        dialect: "canal-json".into(),
        schema: schema.map(|text| TableSchema::Ddl(text.into())),
        fields: Some(fields.iter().map(|name| (*name).to_owned()).collect()),
        ..Options::default()
    });
    let decoder = decoder.expect("the options are right");
    Box::new(move |messages| drop(black_box(decoder.decode(messages).expect("the corpus is right"))))
}

/// The tape at its best: buffers are used again, and the one copy that it needs (it unescapes in place) has its padding.
fn simd_json_tape() -> Way {
    let (mut copy, mut buffers) = (Vec::new(), Buffers::default());
    Box::new(move |messages| {
        let mut tape = Tape::null();
        for message in messages.iter().flatten() {
            copy.clear();
            copy.extend_from_slice(message);
            copy.resize(message.len() + INPUT_PADDING, 0);
            let mut filled = tape.reset();
            fill_tape_padded(&mut copy, message.len(), &mut buffers, &mut filled).expect("the corpus is right");
            black_box(&filled);
            tape = filled.reset();
        }
    })
}

fn serde_json_ignored() -> Way {
    Box::new(|messages| {
        for message in messages.iter().flatten() {
            black_box(serde_json::from_slice::<IgnoredAny>(message).expect("the corpus is right"));
        }
    })
}

/// The struct that a Rust programmer writes first.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only built")]
struct FlatMessage {
    data: Option<Vec<HashMap<String, Option<String>>>>,
    database: String,
    es: i64,
    id: i64,
    is_ddl: bool,
    mysql_type: Option<HashMap<String, String>>,
    old: Option<Vec<HashMap<String, Option<String>>>>,
    pk_names: Option<Vec<String>>,
    sql: String,
    sql_type: Option<HashMap<String, i32>>,
    table: String,
    ts: i64,
    r#type: String,
}

fn serde_derive() -> Way {
    Box::new(|messages| {
        for message in messages.iter().flatten() {
            black_box(serde_json::from_slice::<FlatMessage>(message).expect("the corpus is right"));
        }
    })
}

const BOTH: [&str; 4] = ["op", "before", "after", "event_time"];

/// The ways by the names that the results have.
fn way(shape: &str, name: &str) -> Way {
    let schema = if shape == "narrow" { NARROW } else { WIDE };
    match name {
        "towpath typed" => towpath(Some(schema), &BOTH),
        "towpath after only" => towpath(Some(schema), &["op", "after", "event_time"]),
        "towpath maps" => towpath(None, &BOTH),
        "towpath 3 of 12" => towpath(Some(THREE), &BOTH),
        "simd-json tape" => simd_json_tape(),
        "serde_json IgnoredAny" => serde_json_ignored(),
        "serde derive" => serde_derive(),
        _ => panic!("no such way: {name}"),
    }
}

/// What is measured on a shape.
fn ways(shape: &str) -> &'static [&'static str] {
    match shape {
        "wide" => &[
            "towpath typed",
            "towpath after only",
            "towpath maps",
            "towpath 3 of 12",
            "simd-json tape",
            "serde_json IgnoredAny",
            "serde derive",
        ],
        "tables" => &["towpath typed", "towpath maps", "simd-json tape"],
        _ => &["towpath typed", "simd-json tape"],
    }
}

fn measure(group: &mut BenchmarkGroup<'_, CpuTime>, shape: &str, messages: &BinaryArray) {
    for name in ways(shape) {
        let mut read = way(shape, name);
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| bencher.iter(|| read(messages)));
    }
}

fn bench() {
    let mut criterion = Criterion::default().with_measurement(CpuTime).sample_size(10).configure_from_args();
    for shape in corpus::SHAPES {
        let messages = BinaryArray::from_iter_values(corpus::messages(shape, MESSAGES));
        let mut group = criterion.benchmark_group(shape);
        group.throughput(Throughput::Bytes(messages.value_data().len() as u64));
        measure(&mut group, shape, &messages);
        group.finish();
    }
    criterion.final_summary();
}

fn fixed(shape: &str, name: &str, times: usize) {
    let messages = BinaryArray::from_iter_values(corpus::messages(shape, FIXED_MESSAGES));
    let mut read = way(shape, name);
    for _ in 0..times {
        read(&messages);
    }
}

fn main() {
    assert_eq!(corpus::fingerprint(), corpus::FINGERPRINT, "corpus.py and corpus.rs differ");
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["fixed", shape, name, times] => fixed(shape, name, times.parse().expect("a number of times")),
        _ => bench(),
    }
}
