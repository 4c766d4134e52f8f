//! Every way of the benches reads a small corpus of every shape once, and finds its content.

// The bench uses more of its modules than this test.
#![allow(dead_code)]

#[path = "../benches/corpus/mod.rs"]
mod corpus;
#[path = "../benches/peers/mod.rs"]
mod peers;
#[path = "../benches/ways/mod.rs"]
mod ways;

use corpus::Corpus;

/// Enough for each writer and each kind of statement.
const MESSAGES: usize = 120;

#[test]
fn every_way_reads_every_shape() {
    let scaled = corpus::AXES
        .iter()
        .map(|(axis, sizes)| format!("{axis}-{}", sizes[1]));
    for shape in corpus::SHAPES.map(str::to_owned).into_iter().chain(scaled) {
        assert!(
            corpus::SHAPES.contains(&&*shape) || corpus::scaled(&shape).is_some(),
            "{shape} has no corpus"
        );
        let (shape, corpus) = (&*shape, Corpus::new(&shape, MESSAGES));
        let known = ways::known_ways(shape, &corpus);
        assert_eq!(known, ways::ways(shape), "{shape}: a dialect is not known");
        let messages = ways::array(&corpus.messages);
        for name in known {
            eprintln!("{shape}: {name}");
            ways::way(shape, name, &corpus)(&messages);
        }
    }
}
