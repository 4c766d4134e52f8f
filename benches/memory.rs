//! Memory that a decode takes.
//!
//!     memory FILE COUNT WAY
//!
//! decodes one batch: the first messages of a file that `corpus.py` wrote. It is a separate program, because counting
//! allocations costs time, and because it must hold only its input. A corpus made here would leave free memory behind.
//! A decode would fill this memory before it takes more from the system. Prints JSON.

#[path = "ways/options.rs"]
mod options;

use std::alloc::System;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read, Result};

use arrow_array::BinaryArray;
use arrow_array::builder::BinaryBuilder;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use towpath::Decoder;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of decodes. The peak covers all of them, because the next decode may not be able to reuse freed memory.
const TIMES: usize = 3;

/// Reads messages, each with a big-endian u32 length in front.
fn messages(path: &str, count: usize) -> Result<BinaryArray> {
    let mut file = BufReader::new(File::open(path)?);
    let (mut builder, mut message) = (BinaryBuilder::new(), Vec::new());
    for _ in 0..count {
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        message.resize(u32::from_be_bytes(length) as usize, 0);
        file.read_exact(&mut message)?;
        builder.append_value(&message);
    }
    Ok(builder.finish())
}

/// Returns one of Linux's figures for this process, in bytes.
fn status(name: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("Linux writes it");
    let kibibytes = line
        .trim_matches([':', ' ', '\t'])
        .split(' ')
        .next()
        .and_then(|digits| digits.parse::<u64>().ok());
    Ok(kibibytes.expect("it is a number") << 10)
}

/// Resets the peak to the memory that is resident now.
fn forget_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}

fn measure(decoder: &Decoder, messages: &BinaryArray) -> Result<Value> {
    forget_peak()?;
    let resident = status("VmRSS")?;
    let region = Region::new(ALLOCATOR);
    let batch = decoder.decode(messages).expect("the corpus is right");
    let made = region.change();
    let output = batch.get_array_memory_size();
    drop(batch);
    for _ in 1..TIMES {
        drop(black_box(
            decoder.decode(messages).expect("it was decoded before"),
        ));
    }
    Ok(json!({
        "messages": messages.value_offsets().len() - 1,
        "bytes": messages.values().len(),
        "allocations": made.allocations + made.reallocations,
        "allocated": made.bytes_allocated,
        "output": output,
        "resident": resident,
        "peak": status("VmHWM")?,
    }))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, count, way] = &arguments[..] else {
        println!("memory FILE COUNT WAY: run.py calls it");
        return Ok(());
    };
    let messages = messages(path, count.parse().expect("a number of messages"))?;
    let decoder =
        Decoder::new(options::options("wide", "canal-json", way).expect("a way of towpath"))
            .expect("the options are right");
    println!("{}", measure(&decoder, &messages)?);
    Ok(())
}
