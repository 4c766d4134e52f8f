//! Bench of towpath and other readers over the same messages, on one core.
//!
//! The figures are the thread's CPU time, because other work on the machine disturbs a wall clock more. The peers do
//! far less than towpath: simd-json's tape and serde_json's `IgnoredAny` only scan the text. Derived structs and Avro's
//! values hold text, and convert no value.
//!
//! Before any timing, towpath must find every row of the corpus and no error. If towpath does not know a dialect yet,
//! only its peers are measured.
//!
//! `cargo bench --bench decode` runs criterion, one way after the other, for work on a single way. `run.py` uses verbs
//! that print JSON, because ratios need ways that take turns:
//!
//!     decode rounds SHAPE N          nanoseconds of every way in each of N rounds
//!     decode scaling AXIS N          nanoseconds of towpath over growing columns, rows, tables or value
//!     decode share SHAPE             number of messages that templates read
//!     decode fixed SHAPE WAY TIMES   reads a small batch TIMES times, for a profiler or to count instructions

mod corpus;
mod peers;
mod runner;
mod ways;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};

use corpus::Corpus;
use runner::cpu_time::CpuTime;
use ways::{array, known_ways, way};

fn measure(group: &mut BenchmarkGroup<'_, CpuTime>, shape: &str, corpus: &Corpus) {
    let messages = array(&corpus.messages);
    for name in known_ways(shape, corpus) {
        // Create the reader only when it runs, so that a filter on the command line skips the checks of the others.
        let mut read = None;
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let read = read.get_or_insert_with(|| way(shape, name, corpus));
            bencher.iter(|| read(&messages));
        });
    }
}

fn bench() {
    let mut criterion = Criterion::default()
        .with_measurement(CpuTime)
        .sample_size(10)
        .configure_from_args();
    for shape in corpus::SHAPES {
        let corpus = runner::batch(shape);
        let mut group = criterion.benchmark_group(shape);
        group.throughput(Throughput::Bytes(corpus.bytes() as u64));
        measure(&mut group, shape, &corpus);
        group.finish();
    }
    criterion.final_summary();
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let printed = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["rounds", shape, count] => runner::rounds(shape, number(count)),
        ["scaling", axis, count] => runner::scaling(axis, number(count)),
        ["share", shape] => runner::share(shape),
        ["fixed", shape, name, times] => runner::fixed(shape, name, number(times)),
        _ => return bench(),
    };
    println!("{printed}");
}
