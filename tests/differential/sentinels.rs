//! Names that no producer writes and that a reader might reserve stay plain names: a NUL, a backtick, or an empty name.
//! After any other messages, such a message has the same rows or error as alone.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use towpath::{Layout, Options};

use crate::batches::{Message, batch};
use crate::golden::plain;
use crate::invariants::{decode, decoder, each_message_is_as_alone, input};
use crate::mutations::{IN_PLACE_OF_NAMES, replace_key};
use crate::producers::Producer;
use crate::properties::config;
use crate::settings::NUMBER;
use crate::tables::pick;

/// Batches for each dialect.
const CASES: u32 = 12;

/// Number of damaged statements in a batch.
const STATEMENTS: usize = 12;

fn damaged(message: &Message, place: u16, colon: bool, with: u8) -> Message {
    let mut text = message.value.clone().unwrap_or_default();
    replace_key(
        &mut text,
        place.into(),
        colon,
        pick(IN_PLACE_OF_NAMES, with),
    );
    Message {
        key: message.key.clone(),
        value: Some(text),
    }
}

/// Checks the names of each dialect with its producers' messages, and `auto` with all messages.
fn are_as_alone(dialect: &str, producers: Vec<Producer>) {
    let options = Options {
        layout: Layout::Change,
        keep: vec![NUMBER.to_owned()],
        ..plain(dialect)
    };
    let damage = prop::collection::vec((any::<u16>(), any::<bool>(), any::<u8>()), STATEMENTS);
    let config = config(CASES);
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&(batch(producers), damage), |(batch, damage)| {
        let messages = batch.make().messages;
        let with_damaged =
            messages
                .iter()
                .zip(&damage)
                .flat_map(|(message, (place, colon, with))| {
                    [
                        message.clone(),
                        message.clone(),
                        damaged(message, *place, *colon, *with),
                    ]
                });
        let messages: Vec<Message> = with_damaged.collect();
        let whole = decode(&decoder(&options), &input(&messages));
        each_message_is_as_alone(&options, &messages, &whole)
    });
    if let Err(error) = outcome {
        panic!("{dialect}, seed {seed:?}: {error}");
    }
}

#[test]
fn nothing_stands_for_a_name_of_another_message() {
    for dialect in [
        "canal-json",
        "cloudcanal-json",
        "maxwell-json",
        "debezium-json",
        "river-json",
    ] {
        are_as_alone(
            dialect,
            Producer::ALL
                .into_iter()
                .filter(|producer| producer.names()[0] == dialect)
                .collect(),
        );
    }
    are_as_alone("auto", Producer::ALL.to_vec());
}
