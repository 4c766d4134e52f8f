//! Options of a decoder. The leading bytes of an input choose them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use towpath::{Compression, DIALECTS, Decoder, Layout, Mode, Options, TableSchema, Wire};

use super::input::Choices;

/// Columns of the captures with their own types.
const NATURAL: &str = "id bigint, name string, total decimal(10,2), hash binary, is_open boolean, paid_at timestamp, born date, \
    c_tinyint tinyint, c_tinyint_u smallint, c_int int, c_int_zf bigint, c_bigint bigint, c_bigint_u decimal(20,0), c_bool boolean, \
    c_dec_10_4 decimal(10,4), c_dec_65_30 decimal(65,30), c_float float, c_double double, c_bit1 boolean, c_bit10 binary, \
    c_date date, c_datetime0 timestamp_ntz, c_datetime6 timestamp_ntz, c_timestamp3 timestamp, c_time6 interval day to second, \
    c_year int, c_varchar string, c_binary4 binary, c_blob binary, c_enum string, c_set string, c_json string, c_point binary";

/// The same columns with types that need other conversions.
const CONVERTED: &str = "id string, name binary, total string, hash string, is_open int, paid_at string, born string, \
    c_tinyint boolean, c_tinyint_u tinyint, c_int decimal(10,3), c_int_zf string, c_bigint decimal(38,18), c_bigint_u bigint, c_bool int, \
    c_dec_10_4 decimal(10,1), c_dec_65_30 decimal(76,38), c_float double, c_double float, c_bit1 bigint, c_bit10 decimal(20,0), \
    c_date timestamp, c_datetime0 timestamp, c_datetime6 string, c_timestamp3 timestamp_ntz, c_time6 bigint, \
    c_year string, c_varchar binary, c_binary4 string, c_blob string, c_enum int, c_set decimal(20,0), \
    c_json struct<a: int, k: array<string>, d: map<string, decimal(10,2)>>, c_point struct<srid: int, wkb: binary>";

/// Few columns, so that no message lacks them.
const NARROW: &str = "id bigint, v array<struct<a: timestamp, b: map<string, double>>>, t time";

const SCHEMAS: [Option<&str>; 4] = [None, Some(NATURAL), Some(CONVERTED), Some(NARROW)];

/// Maximum number of kept decoders, because making one takes longer than most executions.
const MAX_DECODERS: usize = 200;

thread_local! {
    static DECODERS: RefCell<HashMap<(String, Choices), Rc<Chosen>>> = RefCell::default();
}

/// The decoder under test, and the decoders to compare it with. They are made on first use.
pub struct Chosen {
    pub options: Options,
    pub decoder: Decoder,
    permissive: OnceCell<Decoder>,
    changes: OnceCell<Decoder>,
}

/// Returns decoders of a dialect for the choices. Keeps them between calls.
pub fn chosen(dialect: &str, choices: Choices) -> Rc<Chosen> {
    // The last byte chooses only Debezium's modes.
    let choices = if is_debezium(dialect) {
        choices
    } else {
        choices.without_last()
    };
    DECODERS.with_borrow_mut(|decoders| {
        if decoders.len() > MAX_DECODERS {
            decoders.clear();
        }
        decoders
            .entry((dialect.to_owned(), choices))
            .or_insert_with(|| Rc::new(Chosen::new(options(dialect, choices))))
            .clone()
    })
}

impl Chosen {
    fn new(options: Options) -> Self {
        Chosen {
            decoder: decoder(options.clone()),
            options,
            permissive: OnceCell::new(),
            changes: OnceCell::new(),
        }
    }

    /// Returns the decoder in mode `PERMISSIVE`.
    pub fn permissive(&self) -> &Decoder {
        if self.options.mode == Mode::Permissive {
            return &self.decoder;
        }
        self.permissive.get_or_init(|| {
            decoder(Options {
                mode: Mode::Permissive,
                ..self.options.clone()
            })
        })
    }

    /// Returns the decoder in mode `PERMISSIVE` and layout `change`.
    pub fn changes(&self) -> &Decoder {
        if self.options.layout == Layout::Change {
            return self.permissive();
        }
        let make = || {
            decoder(Options {
                mode: Mode::Permissive,
                layout: Layout::Change,
                fields: None,
                ..self.options.clone()
            })
        };
        self.changes.get_or_init(make)
    }
}

fn is_debezium(dialect: &str) -> bool {
    dialect == "auto" || dialect == "debezium-json"
}

pub fn decoder(options: Options) -> Decoder {
    Decoder::new(options)
        .unwrap_or_else(|what| panic!("the fuzz target's own options are refused: {what}"))
}

/// Returns plain options of a dialect, with the schemas that its messages refer to.
pub fn plain(dialect: &str) -> Options {
    let is_avro = matches!(dialect, "auto" | "debezium-avro" | "ticdc-avro");
    let writer_schemas = if is_avro {
        writer_schemas()
    } else {
        Vec::new()
    };
    Options {
        dialect: dialect.into(),
        key: Some("key".into()),
        compression: Compression::None,
        writer_schemas,
        ..Options::default()
    }
}

/// Returns the schemas of the golden messages of debezium-avro and ticdc-avro, by their ids.
fn writer_schemas() -> Vec<(u32, String, Vec<String>)> {
    let read = |text| {
        serde_json::from_str::<BTreeMap<u32, serde_json::Value>>(text)
            .expect("the golden schemas are JSON")
    };
    let debezium = read(include_str!("../../golden/debezium-avro/shop.avsc"));
    let schemas = debezium
        .into_iter()
        .chain(read(include_str!("../../golden/ticdc-avro/orders.avsc")));
    schemas
        .map(|(id, schema)| (id, schema.to_string(), Vec::new()))
        .collect()
}

fn options(dialect: &str, choices: Choices) -> Options {
    let schema = choices.pick(0, 1, &SCHEMAS);
    let layout = if schema.is_some() {
        choices.pick(0, 4, Layout::NAMES).1
    } else {
        Layout::Change
    };
    let is_json = dialect == "auto"
        || DIALECTS
            .iter()
            .any(|known| known.name == dialect && known.wire == Wire::Json);
    let is_debezium = is_debezium(dialect);
    let mode_of_debezium = |bit, names: [&str; 4], place| {
        let name = choices.pick(3, 1u8 << place, &names[..]);
        (is_debezium && choices.bit(2, bit)).then(|| name.to_owned())
    };
    Options {
        schema: schema.map(|ddl| TableSchema::Ddl(ddl.into())),
        layout,
        mode: choices.pick(0, 12, Mode::NAMES).1,
        fields: choices.bit(0, 7).then(|| fields(layout)),
        case_sensitive: !choices.bit(1, 0),
        missing_is_error: choices.bit(1, 1),
        lenient: is_json && choices.bit(1, 2),
        zero_date: choices.pick(1, 8, &["null", "error", "text"]).into(),
        time_zone: choices
            .pick(
                1,
                64,
                &["UTC", "Asia/Shanghai", "America/New_York", "+08:00"],
            )
            .into(),
        table: choices.bit(2, 0).then(|| "[a-z_]*".into()),
        max_expansion: if choices.bit(2, 1) { 1 } else { 256 },
        unwrapped: is_debezium && choices.bit(2, 2),
        decimal_handling_mode: mode_of_debezium(3, ["precise", "string", "double", "precise"], 0),
        time_precision_mode: mode_of_debezium(
            4,
            [
                "adaptive",
                "connect",
                "isostring",
                "adaptive_time_microseconds",
            ],
            2,
        ),
        binary_handling_mode: mode_of_debezium(5, ["bytes", "base64", "base64-url-safe", "hex"], 4),
        bigint_unsigned_handling_mode: mode_of_debezium(
            6,
            ["long", "precise", "long", "precise"],
            6,
        ),
        ..plain(dialect)
    }
}

/// Returns few envelope columns, because columns that are not requested are not built.
fn fields(layout: Layout) -> Vec<String> {
    let names: &[&str] = match layout {
        Layout::Change => &[
            "op",
            "after",
            "column_types",
            "jdbc_types",
            "table_changes",
            "error",
            "_corrupt_record",
        ],
        Layout::Changelog => &[
            "_change_type",
            "_row",
            "_column_types",
            "_error",
            "_corrupt_record",
        ],
        Layout::Upsert => &["_op", "_row", "_error", "_corrupt_record"],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}
