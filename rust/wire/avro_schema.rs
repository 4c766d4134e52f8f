//! Avro schemas. A schema describes the encoding of a datum.
//!
//! The schema is deserialized here, because apache-avro would add some forty crates to the wheel for a text that is
//! parsed once.

use std::fmt;

use hashbrown::HashMap;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::avro::Reader;
use super::json::MAX_DEPTH;
use crate::error::{Fault, Kind, Result};

/// The schema of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Schema {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Array(Box<Schema>),
    Map(Box<Schema>),
    Union(Vec<Schema>),
    /// Index of a named type in [`Schemas`].
    Named(usize),
    /// A type with attributes, if [`Schemas::parse_annotated`] keeps them.
    Annotated(Box<Schema>, Box<Attributes>),
}

impl Schema {
    /// Returns the type without its attributes.
    pub fn plain(&self) -> &Schema {
        match self {
            Schema::Annotated(plain, _) => plain.plain(),
            plain => plain,
        }
    }
}

/// The attributes that give a type's values their meaning. The specification asks to ignore an attribute of an
/// unexpected type.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributes {
    pub logical_type: Option<String>,
    pub precision: Option<u64>,
    pub scale: Option<i64>,
    /// The name of Kafka Connect's schema.
    pub connect_name: Option<String>,
    /// Kafka Connect's type if Avro lacks it: `int8` and `int16`.
    pub connect_type: Option<String>,
    pub connect_parameters: Option<Parameters>,
}

/// Parameters of a Kafka Connect schema.
pub(crate) type Parameters = serde_json::Map<String, Value>;

/// A record, enum or fixed.
#[derive(Clone, Debug)]
pub(crate) struct NamedType {
    /// The name without its namespace.
    pub name: String,
    /// The name with its namespace.
    pub full_name: String,
    pub kind: NamedKind,
    pub attributes: Attributes,
    /// True if its values take no bytes. Skipping a record of such records must take no time.
    is_empty: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum NamedKind {
    Record(Vec<Field>),
    Enum(Vec<String>),
    Fixed(usize),
}

/// A field of a record.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub schema: Schema,
    /// Kafka Connect's parameters, if they differ from the parameters of the field's named type.
    pub parameters: Option<Parameters>,
}

/// The named types of a schema.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    types: Vec<NamedType>,
    by_name: HashMap<String, usize>,
    keeps_attributes: bool,
}

impl Schemas {
    /// Parses a schema's JSON text.
    pub fn parse(text: &str) -> Result<(Schemas, Schema), String> {
        let mut schemas = Schemas::default();
        let root = schemas.add(text)?;
        Ok((schemas, root))
    }

    /// Parses a schema's JSON text with its attributes. `references` are the schemas with the named types that it does
    /// not declare itself. Each follows the schemas that it refers to.
    pub fn parse_annotated(text: &str, references: &[String]) -> Result<(Schemas, Schema), String> {
        let mut schemas = Schemas {
            keeps_attributes: true,
            ..Schemas::default()
        };
        for (index, reference) in references.iter().enumerate() {
            schemas
                .add(reference)
                .map_err(|what| format!("reference {}: {what}", index + 1))?;
        }
        let root = schemas.add(text)?;
        Ok((schemas, root))
    }

    fn add(&mut self, text: &str) -> Result<Schema, String> {
        let declared: Declared = serde_json::from_str(text).map_err(|error| error.to_string())?;
        self.resolve(&declared, "")
    }

    /// Returns the attributes of a type.
    pub fn attributes<'s>(&'s self, schema: &'s Schema) -> Option<&'s Attributes> {
        match schema {
            Schema::Annotated(_, attributes) => Some(attributes),
            other => self.named(other).map(|named| &named.attributes),
        }
    }

    pub fn named(&self, schema: &Schema) -> Option<&NamedType> {
        match schema.plain() {
            Schema::Named(number) => Some(self.numbered(*number)),
            _ => None,
        }
    }

    /// Returns the type with this number.
    #[allow(clippy::indexing_slicing, reason = "a number is given with its type")]
    pub fn numbered(&self, number: usize) -> &NamedType {
        &self.types[number]
    }

    /// Returns the fields of a record.
    pub fn fields(&self, schema: &Schema) -> Option<&[Field]> {
        match &self.named(schema)?.kind {
            NamedKind::Record(fields) => Some(fields),
            _ => None,
        }
    }

    /// Returns the symbols of an enum.
    pub fn symbols(&self, schema: &Schema) -> Option<&[String]> {
        match &self.named(schema)?.kind {
            NamedKind::Enum(symbols) => Some(symbols),
            _ => None,
        }
    }

    /// Skips a value.
    pub fn skip(&self, schema: &Schema, reader: &mut Reader<'_>) -> Result<()> {
        self.skip_within(schema, reader, MAX_DEPTH)
    }

    fn skip_within(&self, schema: &Schema, reader: &mut Reader<'_>, levels: u32) -> Result<()> {
        let levels = levels.checked_sub(1).ok_or_else(|| too_deep(reader))?;
        match schema {
            Schema::Null => Ok(()),
            Schema::Boolean => reader.boolean().map(drop),
            Schema::Int => reader.int().map(drop),
            Schema::Long => reader.long().map(drop),
            Schema::Float => reader.float().map(drop),
            Schema::Double => reader.double().map(drop),
            Schema::Bytes | Schema::String => reader.bytes().map(drop),
            Schema::Array(item) => reader.items(|reader| self.skip_within(item, reader, levels)),
            Schema::Map(value) => reader.items(|reader| {
                reader.bytes()?;
                self.skip_within(value, reader, levels)
            }),
            Schema::Union(branches) => {
                self.skip_within(reader.pick(branches, "branch")?, reader, levels)
            }
            Schema::Named(number) => self.skip_named(self.numbered(*number), reader, levels),
            Schema::Annotated(plain, _) => self.skip_within(plain, reader, levels),
        }
    }

    fn skip_named(&self, named: &NamedType, reader: &mut Reader<'_>, levels: u32) -> Result<()> {
        match &named.kind {
            _ if named.is_empty => Ok(()),
            NamedKind::Record(fields) => fields
                .iter()
                .try_for_each(|field| self.skip_within(&field.schema, reader, levels)),
            NamedKind::Enum(symbols) => reader.index(symbols.len(), "symbol").map(drop),
            NamedKind::Fixed(length) => reader.take(*length, "a fixed").map(drop),
        }
    }

    /// Resolves a declaration. Names without a namespace are in `namespace`.
    fn resolve(&mut self, declared: &Declared, namespace: &str) -> Result<Schema, String> {
        match declared {
            Declared::Name(name) => self.by_name(name, namespace),
            Declared::Union(branches) => branches
                .iter()
                .map(|branch| self.resolve(branch, namespace))
                .collect::<Result<_, _>>()
                .map(Schema::Union),
            Declared::Object(object) => self.resolve_object(object, namespace),
        }
    }

    fn by_name(&self, name: &str, namespace: &str) -> Result<Schema, String> {
        Ok(match name {
            "null" => Schema::Null,
            "boolean" => Schema::Boolean,
            "int" => Schema::Int,
            "long" => Schema::Long,
            "float" => Schema::Float,
            "double" => Schema::Double,
            "bytes" => Schema::Bytes,
            "string" => Schema::String,
            name => {
                let number = self
                    .by_name
                    .get(&full_name(name, namespace))
                    .or_else(|| self.by_name.get(name));
                Schema::Named(*number.ok_or_else(|| format!("unknown type {name:?}"))?)
            }
        })
    }

    fn resolve_object(&mut self, object: &Object, namespace: &str) -> Result<Schema, String> {
        match &object.r#type {
            Declared::Name(kind) if kind == "array" => self
                .resolve(required(&object.items, "items")?, namespace)
                .map(|item| Schema::Array(item.into())),
            Declared::Name(kind) if kind == "map" => self
                .resolve(required(&object.values, "values")?, namespace)
                .map(|value| Schema::Map(value.into())),
            Declared::Name(kind)
                if matches!(kind.as_str(), "record" | "error" | "enum" | "fixed") =>
            {
                self.resolve_named(kind, object, namespace)
            }
            // A type with attributes, such as a logical type.
            other => self
                .resolve(other, namespace)
                .map(|plain| self.annotated(plain, object)),
        }
    }

    fn annotated(&self, plain: Schema, object: &Object) -> Schema {
        let attributes = if self.keeps_attributes {
            object.attributes()
        } else {
            Attributes::default()
        };
        if attributes == Attributes::default() {
            plain
        } else {
            Schema::Annotated(plain.into(), attributes.into())
        }
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "the type is pushed with its number"
    )]
    fn resolve_named(
        &mut self,
        kind: &str,
        object: &Object,
        namespace: &str,
    ) -> Result<Schema, String> {
        let full = full_name(
            required(&object.name, "name")?,
            object.namespace.as_deref().unwrap_or(namespace),
        );
        let (namespace, short) = full.rsplit_once('.').unwrap_or(("", &full));
        // A record may refer to itself, so it is registered before its fields are resolved.
        let number = self.types.len();
        let attributes = if self.keeps_attributes {
            object.attributes()
        } else {
            Attributes::default()
        };
        let (name, full_name) = (short.into(), full.clone());
        self.types.push(NamedType {
            name,
            full_name,
            kind: NamedKind::Fixed(0),
            attributes,
            is_empty: false,
        });
        self.by_name.insert(full.clone(), number);
        let kind = self
            .resolve_kind(kind, object, namespace)
            .map_err(|what| format!("{short}: {what}"))?;
        let is_empty = self.takes_no_bytes(&kind);
        let named = &mut self.types[number];
        (named.kind, named.is_empty) = (kind, is_empty);
        Ok(Schema::Named(number))
    }

    fn takes_no_bytes(&self, kind: &NamedKind) -> bool {
        match kind {
            NamedKind::Record(fields) => fields.iter().all(|field| match field.schema.plain() {
                Schema::Null => true,
                other => self.named(other).is_some_and(|named| named.is_empty),
            }),
            kind => matches!(kind, NamedKind::Fixed(0)),
        }
    }

    fn resolve_kind(
        &mut self,
        kind: &str,
        object: &Object,
        namespace: &str,
    ) -> Result<NamedKind, String> {
        Ok(match kind {
            "enum" => NamedKind::Enum(required(&object.symbols, "symbols")?.clone()),
            "fixed" => NamedKind::Fixed(*required(&object.size, "size")?),
            _ => {
                let fields = required(&object.fields, "fields")?.iter().map(|field| {
                    let schema = self
                        .resolve(&field.r#type, namespace)
                        .map_err(|what| format!("{}: {what}", field.name))?;
                    Ok::<_, String>(Field {
                        name: field.name.clone(),
                        schema,
                        parameters: field
                            .parameters
                            .as_ref()
                            .and_then(Value::as_object)
                            .cloned(),
                    })
                });
                NamedKind::Record(fields.collect::<Result<_, _>>()?)
            }
        })
    }
}

/// Values of a union's branches, or the value of a fixed schema.
#[derive(Debug)]
pub(crate) enum Choice<T> {
    Fixed(T),
    Union(Vec<T>),
}

impl<T> Choice<T> {
    pub fn compile(
        schema: &Schema,
        mut branch: impl FnMut(&Schema) -> Result<T, String>,
    ) -> Result<Self, String> {
        Ok(match schema {
            Schema::Union(branches) => {
                Choice::Union(branches.iter().map(branch).collect::<Result<_, _>>()?)
            }
            other => Choice::Fixed(branch(other)?),
        })
    }

    pub fn any(&self, test: impl Fn(&T) -> bool) -> bool {
        self.branches().iter().any(test)
    }

    /// Returns the branches of the union, or the only value.
    pub fn branches(&self) -> &[T] {
        match self {
            Choice::Fixed(one) => std::slice::from_ref(one),
            Choice::Union(branches) => branches,
        }
    }

    #[inline(always)]
    pub fn pick(&self, reader: &mut Reader<'_>) -> Result<&T> {
        match self {
            Choice::Fixed(one) => Ok(one),
            Choice::Union(branches) => reader.pick(branches, "branch"),
        }
    }
}

/// A schema's JSON: the name of a type, the branches of a union, or an object.
enum Declared {
    Name(String),
    Union(Vec<Declared>),
    Object(Box<Object>),
}

/// The attributes that determine the encoding. Others are ignored.
#[derive(Deserialize)]
struct Object {
    r#type: Declared,
    name: Option<String>,
    namespace: Option<String>,
    items: Option<Declared>,
    values: Option<Declared>,
    symbols: Option<Vec<String>>,
    size: Option<usize>,
    fields: Option<Vec<DeclaredField>>,
    #[serde(rename = "logicalType")]
    logical_type: Option<Value>,
    precision: Option<Value>,
    scale: Option<Value>,
    #[serde(rename = "connect.name")]
    connect_name: Option<Value>,
    #[serde(rename = "connect.type")]
    connect_type: Option<Value>,
    #[serde(rename = "connect.parameters")]
    connect_parameters: Option<Value>,
}

fn text(attribute: &Option<Value>) -> Option<String> {
    attribute.as_ref()?.as_str().map(str::to_owned)
}

impl Object {
    fn attributes(&self) -> Attributes {
        Attributes {
            logical_type: text(&self.logical_type),
            precision: self.precision.as_ref().and_then(Value::as_u64),
            scale: self.scale.as_ref().and_then(Value::as_i64),
            connect_name: text(&self.connect_name),
            connect_type: text(&self.connect_type),
            connect_parameters: self
                .connect_parameters
                .as_ref()
                .and_then(Value::as_object)
                .cloned(),
        }
    }
}

#[derive(Deserialize)]
struct DeclaredField {
    name: String,
    r#type: Declared,
    #[serde(rename = "connect.parameters")]
    parameters: Option<Value>,
}

impl<'de> Deserialize<'de> for Declared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DeclaredVisitor;

        impl<'de> Visitor<'de> for DeclaredVisitor {
            type Value = Declared;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a schema: the name of a type, an array or an object")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Declared, E> {
                Ok(Declared::Name(name.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, branches: A) -> Result<Declared, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(branches)).map(Declared::Union)
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Declared, A::Error> {
                Object::deserialize(MapAccessDeserializer::new(members))
                    .map(|object| Declared::Object(Box::new(object)))
            }
        }

        deserializer.deserialize_any(DeclaredVisitor)
    }
}

fn required<'o, T>(attribute: &'o Option<T>, name: &str) -> Result<&'o T, String> {
    attribute
        .as_ref()
        .ok_or_else(|| format!("{name} is missing"))
}

#[cold]
fn too_deep(reader: &Reader<'_>) -> Fault {
    Fault::new(
        Kind::Depth,
        format!("nested deeper than {MAX_DEPTH} levels"),
    )
    .at(reader.at())
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        name.into()
    } else {
        format!("{namespace}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(result: Result<()>) -> Kind {
        result.unwrap_err().into_parts().kind
    }

    #[test]
    fn schemas_by_name_and_namespace() {
        let text = r#"{"type":"record","name":"a.b.Outer","fields":[
            {"name":"id","type":{"type":"long","logicalType":"x"},"default":0},
            {"name":"inner","type":["null",{"name":"Inner","type":"record","fields":[{"name":"outer","type":["null","Outer"]}]}]},
            {"name":"again","type":"a.b.Inner"},
            {"name":"fixed","type":{"type":"fixed","name":"Two","namespace":"","size":2}},
            {"name":"word","type":{"symbols":["A","B"],"name":"Word","type":"enum"}},
            {"name":"map","type":{"values":"double","type":"map"}}]}"#;
        let (schemas, root) = Schemas::parse(text).unwrap();
        let fields = schemas.fields(&root).unwrap();
        assert_eq!(
            fields
                .iter()
                .map(|field| field.name.as_str())
                .collect::<Vec<_>>(),
            ["id", "inner", "again", "fixed", "word", "map"]
        );
        assert_eq!(
            fields[1].schema,
            Schema::Union(vec![Schema::Null, Schema::Named(1)])
        );
        assert_eq!(fields[2].schema, Schema::Named(1));
        // An id; no inner record; an inner record without an outer one; two bytes; B; {"k": 1.0}.
        let mut reader =
            Reader::new(b"\x02\x00\x00xx\x02\x02\x02k\x00\x00\x00\x00\x00\x00\xf0\x3f\x00");
        assert!(schemas.skip(&root, &mut reader).is_ok() && reader.is_at_end());
    }

    #[test]
    fn invalid_schemas() {
        let error = |text: &str| Schemas::parse(text).unwrap_err();
        assert_eq!(error(""), "EOF while parsing a value at line 1 column 0");
        let expected = "expected a schema: the name of a type, an array or an object";
        assert!(
            error("true").starts_with(&format!("invalid type: boolean `true`, {expected}")),
            "{}",
            error("true")
        );
        assert_eq!(error("\"int\" x"), "trailing characters at line 1 column 7");
        assert_eq!(error(r#""Nobody""#), r#"unknown type "Nobody""#);
        assert_eq!(
            error(r#"{"name":"x"}"#),
            "missing field `type` at line 1 column 12"
        );
        assert_eq!(error(r#"{"type":"array"}"#), "items is missing");
        assert_eq!(
            error(r#"{"type":"record","name":"R","fields":[{"name":"x","type":"y"}]}"#),
            r#"R: x: unknown type "y""#
        );
        assert!(
            error(r#"{"type":"fixed","name":"F","size":-1}"#)
                .starts_with("invalid value: integer `-1`, expected usize")
        );
        assert!(
            error(&format!("{}{}", "[".repeat(1000), "]".repeat(1000)))
                .starts_with("recursion limit exceeded")
        );
    }

    #[test]
    fn attributes_are_kept_on_request() {
        let text = r#"{"type":"record","name":"R","connect.name":"s.R","fields":[
            {"name":"a","type":["null",{"type":"int","connect.type":"int16","connect.parameters":{"k":"v"}}]},
            {"name":"b","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2},"connect.parameters":{"k":"w"}},
            {"name":"c","type":{"type":"long","logicalType":7}}]}"#;
        let (schemas, root) = Schemas::parse_annotated(text, &[]).unwrap();
        assert_eq!(
            schemas.attributes(&root).unwrap().connect_name.as_deref(),
            Some("s.R")
        );
        let fields = schemas.fields(&root).unwrap();
        let Schema::Union(branches) = &fields[0].schema else {
            panic!("no union")
        };
        let small = schemas.attributes(&branches[1]).unwrap();
        assert_eq!(
            (small.connect_type.as_deref(), branches[1].plain()),
            (Some("int16"), &Schema::Int)
        );
        assert_eq!(small.connect_parameters.as_ref().unwrap()["k"], "v");
        let decimal = schemas.attributes(&fields[1].schema).unwrap();
        assert_eq!(
            (
                decimal.logical_type.as_deref(),
                decimal.precision,
                decimal.scale
            ),
            (Some("decimal"), Some(4), Some(2))
        );
        assert_eq!(fields[1].parameters.as_ref().unwrap()["k"], "w");
        assert_eq!(
            (&fields[2].schema, Schemas::parse(text).unwrap().1),
            (&Schema::Long, Schema::Named(0))
        );
    }

    #[test]
    fn types_of_references_are_known_by_their_names() {
        let inner = r#"{"type":"record","name":"a.Inner","fields":[{"name":"id","type":"int"}]}"#
            .to_owned();
        let middle =
            r#"{"type":"record","name":"b.Middle","fields":[{"name":"inner","type":"a.Inner"}]}"#
                .to_owned();
        let text = r#"{"type":"array","items":"b.Middle"}"#;
        let (schemas, root) =
            Schemas::parse_annotated(text, &[inner.clone(), middle.clone()]).unwrap();
        assert!(
            schemas
                .skip(&root, &mut Reader::new(b"\x02\x0e\x00"))
                .is_ok()
        );
        assert_eq!(
            Schemas::parse_annotated(text, &[middle, inner]).unwrap_err(),
            r#"reference 1: Middle: inner: unknown type "a.Inner""#
        );
    }

    #[test]
    fn records_of_nothing_take_no_time_to_skip() {
        let mut nothing =
            r#"{"type":"record","name":"N0","fields":[{"name":"n","type":"null"}]}"#.to_owned();
        for level in 1..30 {
            let inner = level - 1;
            nothing = format!(
                r#"{{"type":"record","name":"N{level}","fields":[{{"name":"a","type":{nothing}}},{{"name":"b","type":"N{inner}"}}]}}"#
            );
        }
        let (schemas, root) = Schemas::parse(&nothing).unwrap();
        assert!(schemas.skip(&root, &mut Reader::new(b"")).is_ok());
    }

    #[test]
    fn recursive_types_are_limited_in_depth() {
        let (schemas, root) =
            Schemas::parse(r#"{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}"#)
                .unwrap();
        assert_eq!(
            kind(schemas.skip(&root, &mut Reader::new(b""))),
            Kind::Depth
        );
        let (schemas, root) =
            Schemas::parse(r#"{"type":"record","name":"R","fields":[{"name":"r","type":{"type":"array","items":"R"}}]}"#).unwrap();
        assert_eq!(
            kind(schemas.skip(&root, &mut Reader::new(&[2; 1000]))),
            Kind::Depth
        );
        let (schemas, root) = Schemas::parse(r#"{"type":"array","items":"null"}"#).unwrap();
        assert!(
            schemas
                .skip(&root, &mut Reader::new(b"\x02\x02\x00"))
                .is_ok()
        );
    }
}
