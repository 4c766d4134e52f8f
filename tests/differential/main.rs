//! Two readers of the same decoder: one reads messages with templates of earlier ones, the other without. Their output,
//! their errors and their counts are equal for any bytes and any options.
//!
//! Two ways to the same rows: alone and in a batch, plain and compressed (`invariants`). Rows that producers write come
//! back (`round_trip`). Damaged messages are errors, and do not harm others (`damaged`).
//!
//! `PROPTEST_CASES=5000 cargo test --test differential` tries more cases. A failure prints its seed. With this seed in
//! `PROPTEST_RNG_SEED`, the same cases run again. With `--nocapture`, each test prints how much it compared.

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
