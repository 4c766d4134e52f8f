//! Writes the messages of a shape for the Python benches: a big-endian u32 length before each.
//!
//!     cargo run --example corpus SHAPE COUNT FILE

use std::fs::File;
use std::io::{BufWriter, Write};

#[allow(dead_code, unused_imports, reason = "the Rust bench uses more of it")]
mod corpus;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shape, count, file] = arguments.as_slice() else {
        panic!("expected: SHAPE COUNT FILE")
    };
    let made = corpus::Corpus::new(shape, count.parse().expect("a number"));
    let mut out = BufWriter::new(File::create(file)?);
    for message in made.messages {
        let length = u32::try_from(message.bytes.len()).expect("a message is short");
        out.write_all(&length.to_be_bytes())?;
        out.write_all(&message.bytes)?;
    }
    out.flush()
}
