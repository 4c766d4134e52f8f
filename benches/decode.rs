//! `cargo bench`: towpath and other readers over the same messages, on one core.
//!
//! The figures are the thread's CPU time, as other work on the machine disturbs a wall clock more. The peers stop far
//! short of towpath's work: simd-json's tape and serde_json's `IgnoredAny` only look at the text, and derived structs
//! and Avro's values hold text, with no value converted.
//!
//! Before anything is timed, towpath has to find every row of the corpus and no error. A dialect that this towpath does not
//! know yet is left out, and only its peers are measured.
//!
//! `decode fixed SHAPE WHAT TIMES` runs one of them a fixed number of times and prints nothing: for a profiler, or to
//! count instructions.

mod corpus;
mod peers;

use std::hint::black_box;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use towpath::{Decoder, Mode, Options, TableSchema};

use corpus::{Corpus, Message, Sums, Truth};

/// What Spark puts into one Arrow batch by default.
const MESSAGES: usize = 10_000;
/// Enough for a stable count, and soon done under a simulator.
const FIXED_MESSAGES: usize = 2_000;

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

/// Both images, typed. Messages of Debezium without the schema part leave it to the user to say how the connector was set.
fn typed(shape: &str, dialect: &str) -> Options {
    let mut options = Options {
        dialect: dialect.into(),
        schema: ddl(if shape == "narrow" { NARROW } else { WIDE }),
        fields: names(&["op", "before", "after", "event_time"]),
        ..Options::default()
    };
    if matches!(shape, "debezium" | "mixed") {
        options.decimal_handling_mode = Some("precise".into());
        options.time_precision_mode = Some("adaptive_time_microseconds".into());
        options.column_types = vec![("placed_at".into(), "datetime".into())];
    }
    options
}

fn ddl(text: &str) -> Option<TableSchema> {
    Some(TableSchema::Ddl(text.into()))
}

fn names(fields: &[&str]) -> Option<Vec<String>> {
    Some(fields.iter().map(|name| (*name).to_owned()).collect())
}

fn decoder(options: Options) -> Decoder {
    Decoder::new(options).expect("the options are right")
}

/// towpath as its users call it: one batch in, one batch out. It has to decode the corpus without any error first.
fn towpath(options: Options, corpus: &Corpus) -> Way {
    let strict = decoder(Options { mode: Mode::FailFast, ..options.clone() });
    let batch = strict.decode(&array(&corpus.messages)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(batch.num_rows() as u64, corpus.truth.rows, "rows");
    check_images(&batch, &corpus.truth);
    let decoder = decoder(options);
    Box::new(move |messages| drop(black_box(decoder.decode(messages).expect("it was decoded before"))))
}

/// A mixed corpus after it has been sorted out: each dialect's messages go to a decoder that is told the dialect. `auto`,
/// beside which it stands, has checked that they decode.
fn towpath_by_name(options: &Options, corpus: &Corpus) -> Way {
    let parts = dialects(corpus).into_iter().map(|dialect| {
        let messages = array(corpus.messages.iter().filter(|message| message.dialect == dialect));
        (decoder(Options { dialect: dialect.into(), ..options.clone() }), messages)
    });
    let parts: Vec<(Decoder, BinaryArray)> = parts.collect();
    Box::new(move |_| {
        for (decoder, messages) in &parts {
            drop(black_box(decoder.decode(messages).expect("auto has decoded it")));
        }
    })
}

/// Whether the images are those that were written, by their number and by sums.
fn check_images(batch: &RecordBatch, truth: &Truth) {
    for (name, truth) in [("before", &truth.before), ("after", &truth.after)] {
        if let Some(images) = batch.column_by_name(name) {
            assert_eq!(&sums(images, truth), truth, "{name}");
        }
    }
}

/// Maps are only counted.
fn sums(images: &ArrayRef, truth: &Sums) -> Sums {
    let count = images.len() - images.null_count();
    let Some(rows) = images.as_struct_opt() else { return Sums { images: count, ..*truth } };
    let ids = rows.column_by_name("id").expect("schemas here have it").as_primitive::<Int64Type>();
    let totals = rows.column_by_name("total").expect("schemas here have it").as_primitive::<Decimal128Type>();
    Sums { images: count, ids: ids.iter().flatten().sum(), cents: totals.iter().flatten().sum::<i128>() as i64 }
}

/// A peer that reads values, when it has read the right ones.
fn checked(read: impl FnMut(&BinaryArray) + 'static, found: fn(&BinaryArray) -> (u64, i64, i64), corpus: &Corpus) -> Way {
    let Truth { rows, before, after } = &corpus.truth;
    assert_eq!(found(&array(&corpus.messages)), (*rows, before.ids, after.ids), "a peer's rows and ids");
    Box::new(read)
}

/// The ways by the names that the results have.
fn way(shape: &str, name: &str, corpus: &Corpus) -> Way {
    let typed = typed(shape, corpus.messages[0].dialect);
    match name {
        "towpath typed" => towpath(typed, corpus),
        "towpath auto" => towpath(Options { dialect: "auto".into(), ..typed }, corpus),
        "towpath by name" => towpath_by_name(&typed, corpus),
        "towpath after only" => towpath(Options { fields: names(&["op", "after", "event_time"]), ..typed }, corpus),
        "towpath maps" => towpath(Options { schema: None, ..typed }, corpus),
        "towpath 3 of 12" => towpath(Options { schema: ddl(THREE), ..typed }, corpus),
        "simd-json tape" => Box::new(peers::json::simd_json_tape()),
        "serde_json IgnoredAny" => Box::new(peers::json::serde_json_ignored),
        "serde derive" => Box::new(peers::json::serde_derive),
        "prost structs" => checked(peers::canal_protobuf::prost_structs, peers::canal_protobuf::found, corpus),
        "apache-avro" => checked(peers::dts_avro::values(), peers::dts_avro::found, corpus),
        _ => panic!("no such way: {name}"),
    }
}

/// What is measured on a shape.
fn ways(shape: &str) -> &'static [&'static str] {
    match shape {
        "wide" => &[
            "towpath typed",
            "towpath auto",
            "towpath after only",
            "towpath maps",
            "towpath 3 of 12",
            "simd-json tape",
            "serde_json IgnoredAny",
            "serde derive",
        ],
        "tables" => &["towpath typed", "towpath maps", "simd-json tape"],
        "cloudcanal" | "debezium" | "debezium-schema" | "maxwell" | "river" => &["towpath typed", "towpath auto", "simd-json tape"],
        "dts" => &["towpath typed", "towpath auto", "apache-avro"],
        "protobuf" => &["towpath typed", "towpath auto", "prost structs"],
        "mixed" => &["towpath auto", "towpath by name"],
        _ => &["towpath typed", "simd-json tape"],
    }
}

fn array<'m>(messages: impl IntoIterator<Item = &'m Message>) -> BinaryArray {
    BinaryArray::from_iter_values(messages.into_iter().map(|message| &message.bytes))
}

/// Each once.
fn dialects(corpus: &Corpus) -> Vec<&'static str> {
    let mut dialects: Vec<_> = corpus.messages.iter().map(|message| message.dialect).collect();
    dialects.sort_unstable();
    dialects.dedup();
    dialects
}

fn measure(group: &mut BenchmarkGroup<'_, CpuTime>, shape: &str, corpus: &Corpus) {
    let unknown: Vec<_> = dialects(corpus).into_iter().filter(|dialect| towpath::find(dialect).is_none()).collect();
    if !unknown.is_empty() {
        println!("{shape}: towpath is left out, as it does not know {} yet", unknown.join(", "));
    }
    let messages = array(&corpus.messages);
    for name in ways(shape).iter().filter(|name| unknown.is_empty() || !name.starts_with("towpath")) {
        // Made only when it runs, so that a filter on the command line spares the checks of the others.
        let mut read = None;
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let read = read.get_or_insert_with(|| way(shape, name, corpus));
            bencher.iter(|| read(&messages));
        });
    }
}

fn bench() {
    let mut criterion = Criterion::default().with_measurement(CpuTime).sample_size(10).configure_from_args();
    for shape in corpus::SHAPES {
        // A packet holds the changes of about eight other messages.
        let corpus = Corpus::new(shape, if shape == "protobuf" { MESSAGES / 8 } else { MESSAGES });
        let mut group = criterion.benchmark_group(shape);
        group.throughput(Throughput::Bytes(corpus.messages.iter().map(|message| message.bytes.len() as u64).sum()));
        measure(&mut group, shape, &corpus);
        group.finish();
    }
    criterion.final_summary();
}

fn fixed(shape: &str, name: &str, times: usize) {
    let corpus = Corpus::new(shape, FIXED_MESSAGES);
    let (mut read, messages) = (way(shape, name, &corpus), array(&corpus.messages));
    for _ in 0..times {
        read(&messages);
    }
}

fn main() {
    assert_eq!(corpus::fingerprint(), corpus::FINGERPRINT, "corpus.py and corpus/mod.rs differ");
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["fixed", shape, name, times] => fixed(shape, name, times.parse().expect("a number of times")),
        _ => bench(),
    }
}
