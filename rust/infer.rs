//! Inference of the table's columns from the types that messages declare.

use arrow_array::{Array, StructArray};
use arrow_schema::{DataType, Field, Schema};
use hashbrown::HashMap;

use crate::columns::spell;
use crate::decoder::{DecodeError, Decoder};
use crate::error::excerpt;
use crate::options::Options;
use crate::schema::arrow_types::infer;

/// Infers the columns of the tables that `options` selects, in the order in which messages declare them. `values` is an
/// array of messages, or a struct array with the columns `value` and optionally `key`. If messages declare a column
/// differently, its type holds the values of both. It is an error if no such type exists.
#[allow(clippy::indexing_slicing, reason = "`places` has places in `fields`")]
pub fn infer_schema(values: &dyn Array, options: Options) -> Result<Schema, DecodeError> {
    let columns = values.as_any().downcast_ref::<StructArray>();
    let key = columns
        .and_then(|columns| columns.column_by_name("key"))
        .map(|_| "key".to_owned());
    let options = Options {
        schema: None,
        fields: Some(
            ["column_types", "before", "after"]
                .map(String::from)
                .to_vec(),
        ),
        key,
        ..options
    };
    let mut fields: Vec<(String, DataType)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    Decoder::new(options)?.declared_types(values, |name, declared, value| {
        if name.contains('\0') {
            return Err(format!(
                "infer_schema: column {} has U+0000 in its name, which a schema cannot have",
                excerpt(name)
            ));
        }
        let inferred = infer(declared, value);
        if let Some(place) = places.get(name) {
            let known = &mut fields[*place].1;
            *known =
                common_type(known, &inferred).ok_or_else(|| conflict(name, known, &inferred))?;
            return Ok(());
        }
        places.insert(name.to_owned(), fields.len());
        fields.push((name.to_owned(), inferred));
        Ok(())
    })?;
    if fields.is_empty() {
        return Err(
            "infer_schema: no message of the selected databases and tables declares column types"
                .to_owned()
                .into(),
        );
    }
    let fields = fields.into_iter().map(|(name, data_type)| match data_type {
        DataType::Null => Field::new(name, DataType::Utf8, true),
        data_type => Field::new(name, data_type, true),
    });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

fn conflict(name: &str, one: &DataType, other: &DataType) -> String {
    let (name, one, other) = (excerpt(name), spell(one), spell(other));
    format!(
        "infer_schema: column {name} is both {one} and {other}; select one table with database and table"
    )
}

/// Returns the type that holds the values of both, if such a type exists.
fn common_type(one: &DataType, other: &DataType) -> Option<DataType> {
    if one == other {
        return Some(one.clone());
    }
    let integers = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
    ];
    let ranks = [one, other].map(|known| integers.iter().position(|integer| integer == known));
    if let [Some(a), Some(b)] = ranks {
        return integers.get(a.max(b)).cloned();
    }
    if let (Some((whole_a, scale_a)), Some((whole_b, scale_b))) = (digits(one), digits(other)) {
        let (whole, scale) = (whole_a.max(whole_b), scale_a.max(scale_b));
        return Some(if whole + scale <= 38 {
            DataType::Decimal128(whole + scale, scale as i8)
        } else {
            DataType::Utf8
        });
    }
    match (one, other) {
        (DataType::Null, known) | (known, DataType::Null) => Some(known.clone()),
        (DataType::Float32, DataType::Float64) | (DataType::Float64, DataType::Float32) => {
            Some(DataType::Float64)
        }
        (DataType::Binary, _) | (_, DataType::Binary) => None,
        (DataType::Utf8, _) | (_, DataType::Utf8) => Some(DataType::Utf8),
        _ => None,
    }
}

/// Returns the numbers of integer digits and fraction digits.
fn digits(data_type: &DataType) -> Option<(u8, u8)> {
    Some(match data_type {
        DataType::Int8 => (3, 0),
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::Decimal128(precision, scale) => (precision - *scale as u8, *scale as u8),
        _ => return None,
    })
}
