//! Two readers of the same decoder: one reads messages by templates of earlier ones, the other does not. For any bytes and any options
//! their output is the same, their errors are, and their counts.
//!
//! Two ways to the same rows: alone and in a batch, plain and compressed (`invariants`); what producers write comes back (`round_trip`).
//! Damaged messages are errors, and harm no other (`damaged`).
//!
//! `PROPTEST_CASES=5000 cargo test --test differential` tries more. A failure tells its seed: the same cases come again with that in
//! `PROPTEST_RNG_SEED`. With `--nocapture` each test prints how much it compared.

mod any_columns;
mod batches;
mod captures;
mod compare;
mod damaged;
mod elements;
mod extremes;
mod flat;
mod found;
mod golden;
mod invariants;
mod json;
mod mutations;
mod producers;
mod properties;
mod round_trip;
mod sentinels;
mod settings;
mod tables;
mod templated;
mod times;
mod values;
