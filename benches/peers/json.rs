//! JSON readers.

use std::collections::HashMap;
use std::hint::black_box;

use arrow_array::BinaryArray;
use serde::Deserialize;
use serde::de::IgnoredAny;
use simd_json::{Buffers, INPUT_PADDING, Tape, fill_tape_padded};

/// The tape in its best case: it reuses buffers, and its only copy (it unescapes in place) has the padding.
pub fn simd_json_tape() -> impl FnMut(&BinaryArray) {
    let (mut copy, mut buffers) = (Vec::new(), Buffers::default());
    move |messages| {
        let mut tape = Tape::null();
        for message in messages.iter().flatten() {
            copy.clear();
            copy.extend_from_slice(message);
            copy.resize(message.len() + INPUT_PADDING, 0);
            let mut filled = tape.reset();
            fill_tape_padded(&mut copy, message.len(), &mut buffers, &mut filled)
                .expect("the corpus is right");
            black_box(&filled);
            tape = filled.reset();
        }
    }
}

pub fn serde_json_ignored(messages: &BinaryArray) {
    for message in messages.iter().flatten() {
        black_box(serde_json::from_slice::<IgnoredAny>(message).expect("the corpus is right"));
    }
}

/// A straightforward Rust struct.
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

pub fn serde_derive(messages: &BinaryArray) {
    for message in messages.iter().flatten() {
        black_box(serde_json::from_slice::<FlatMessage>(message).expect("the corpus is right"));
    }
}
