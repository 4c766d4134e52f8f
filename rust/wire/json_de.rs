//! serde over the [`Cursor`]: an envelope is declared as a struct, and derived code reads it.
//!
//! It differs from a general deserializer in three ways, because each message of a topic resembles the one before it:
//!
//! - Names of members are not compared one by one. The order of the last message predicts the next member, and derived
//!   code gets its index ([`MemberNames`]).
//! - Parts outside the envelope, such as row images, are read once. The [`Context`] reads and keeps them. A newtype
//!   asks for such a part by a token in place of the newtype's name, like `serde_json` for its `RawValue`. Derived code
//!   can pass nothing else to the deserializer.
//! - Faults keep their byte. They get the path of the member while they propagate.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::value::{BorrowedStrDeserializer, U64Deserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::error::{Fault, Kind, Result};
use crate::interner::{MemberNames, NameId};
use crate::value::Value;
use crate::wire::json::{Cursor, Elements, Members};

/// Keeper of the parts of a message outside its envelope.
pub(crate) trait Context<'a> {
    /// Returns the members of the structs that were read before.
    fn members(&mut self) -> &mut MemberNames;

    /// Reads the part for `token`.
    fn read_part(&mut self, token: &'static str, cursor: &mut Cursor<'a>) -> Result<Part<'a>>;

    /// Reports a member that the struct with this name does not have.
    #[inline]
    fn unknown_member(&mut self, _of: &'static str) {}
}

/// A part that a context has read, or its place in the context.
pub(crate) enum Part<'a> {
    /// Nothing, or null.
    None,
    Index(usize),
    Range(Range<usize>),
    /// JSON text.
    Raw(&'a str),
}

impl<'a> Part<'a> {
    /// Reads the part for `token`. The `Deserialize` of a newtype calls it.
    #[inline(always)]
    pub fn deserialize<D: Deserializer<'a>>(
        token: &'static str,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(token, PartVisitor)
    }

    pub fn index(self) -> Option<usize> {
        if let Part::Index(index) = self {
            Some(index)
        } else {
            None
        }
    }

    pub fn range(self) -> Option<Range<usize>> {
        if let Part::Range(range) = self {
            Some(range)
        } else {
            None
        }
    }

    pub fn raw(self) -> Option<&'a str> {
        if let Part::Raw(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// Passes the part on as a type that serde knows. Among these types, only `u128` has room for a range.
    #[inline(always)]
    fn visit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value> {
        match self {
            Part::None => visitor.visit_none(),
            Part::Index(index) => visitor.visit_u64(index as u64),
            Part::Range(range) => {
                visitor.visit_u128((range.start as u128) << 64 | range.end as u128)
            }
            Part::Raw(text) => visitor.visit_borrowed_str(text),
        }
    }
}

/// Implements `Deserialize` for a type that is made of the part for a token.
macro_rules! deserialize_part {
    ($type:ident, $token:expr, $make:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            #[inline(always)]
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::wire::json_de::Part::deserialize($token, deserializer).map($make)
            }
        }
    };
}

pub(crate) use deserialize_part;

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of a message")
    }

    #[inline(always)]
    fn visit_none<E>(self) -> Result<Part<'de>, E> {
        Ok(Part::None)
    }

    #[inline(always)]
    fn visit_u64<E>(self, index: u64) -> Result<Part<'de>, E> {
        Ok(Part::Index(index as usize))
    }

    #[inline(always)]
    fn visit_u128<E>(self, range: u128) -> Result<Part<'de>, E> {
        Ok(Part::Range((range >> 64) as usize..range as usize))
    }

    #[inline(always)]
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Part<'de>, E> {
        Ok(Part::Raw(text))
    }
}

/// Text, borrowed if it has no escapes. Derived code would copy a plain `Option<Cow<str>>`.
#[derive(Debug)]
pub(crate) struct CowStr<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for CowStr<'a> {
    #[inline(always)]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(CowStrVisitor)
    }
}

impl<'a> From<CowStr<'a>> for Cow<'a, str> {
    fn from(text: CowStr<'a>) -> Self {
        text.0
    }
}

struct CowStrVisitor;

impl<'de> Visitor<'de> for CowStrVisitor {
    type Value = CowStr<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    #[inline(always)]
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<CowStr<'de>, E> {
        Ok(CowStr(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<CowStr<'de>, E> {
        Ok(CowStr(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<CowStr<'de>, E> {
        Ok(CowStr(Cow::Owned(text)))
    }
}

/// An object or array as its JSON text.
#[derive(Debug)]
pub(crate) struct RawNested<'a>(pub &'a str);

const NESTED: &str = "$nested";

impl<'de: 'a, 'a> Deserialize<'de> for RawNested<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Part::deserialize(NESTED, deserializer)
            .map(|part| RawNested(part.raw().unwrap_or_default()))
    }
}

/// Any value, unconverted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawValue<'a>(pub Value<'a>);

const VALUE: &str = "$value";

impl Default for RawValue<'_> {
    fn default() -> Self {
        RawValue(Value::Null)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawValue<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(VALUE, RawValueVisitor)
    }
}

struct RawValueVisitor;

impl<'de> Visitor<'de> for RawValueVisitor {
    type Value = RawValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    /// Visits text without escapes. Nearly all texts have none.
    #[inline]
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<RawValue<'de>, E> {
        Ok(RawValue(Value::Text(text)))
    }

    /// Visits any other value as its JSON text, which was checked.
    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<RawValue<'de>, D::Error> {
        let value = Cursor::new(<&str>::deserialize(deserializer)?, true).value();
        value.map(RawValue).map_err(serde::de::Error::custom)
    }
}

/// Returns whether a member exists, whatever its value: for `deserialize_with`.
pub(crate) fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// Reads the object at the cursor.
#[inline]
pub(crate) fn read<'a, T: Deserialize<'a>>(
    cursor: &mut Cursor<'a>,
    context: &mut impl Context<'a>,
) -> Result<T> {
    if cursor.peek() != Some(b'{') {
        return Err(cursor.no_object("an object"));
    }
    T::deserialize(JsonValue {
        cursor,
        context,
        or_null: false,
    })
}

/// Returns the names of a struct's members, in its order; empty if the type is not a struct.
pub(crate) fn member_names<'a, T: Deserialize<'a>>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // It always fails, because it has no value.
    let _ = T::deserialize(NamesOfMembers(&mut names));
    names
}

/// Keeps the names that derived code passes before it reads anything.
struct NamesOfMembers<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for NamesOfMembers<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value> {
        Err(<Fault as serde::de::Error>::custom("there is no value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        *self.0 = names;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The value at the cursor.
struct JsonValue<'d, 'a, C> {
    cursor: &'d mut Cursor<'a>,
    context: &'d mut C,
    /// True if null is also allowed. Errors mention it.
    or_null: bool,
}

impl<'a, C: Context<'a>> JsonValue<'_, 'a, C> {
    /// Returns the value's first byte. The check for null has skipped white space.
    #[inline(always)]
    fn first(&mut self) -> Option<u8> {
        if self.or_null {
            self.cursor.next_byte()
        } else {
            self.cursor.peek()
        }
    }

    #[cold]
    fn wrong_type(self, expected: &str) -> Fault {
        self.cursor.wrong_type(&format!(
            "{expected}{}",
            if self.or_null { " or null" } else { "" }
        ))
    }
}

impl<'a, C: Context<'a>> Deserializer<'a> for JsonValue<'_, 'a, C> {
    type Error = Fault;

    /// Derived code always declares what it expects.
    fn deserialize_any<V: Visitor<'a>>(self, _: V) -> Result<V::Value> {
        Err(<Fault as serde::de::Error>::custom(
            "a struct has a member of a type that envelopes do not have",
        ))
    }

    #[inline(always)]
    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value> {
        if self.cursor.peek() == Some(b'n') {
            self.cursor.null()?;
            return visitor.visit_none();
        }
        visitor.visit_some(JsonValue {
            or_null: true,
            ..self
        })
    }

    #[inline(always)]
    fn deserialize_str<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value> {
        if self.first() != Some(b'"') {
            return Err(self.wrong_type("text"));
        }
        let start = self.cursor.at();
        let text = self.cursor.text_at_quote()?;
        if !text.escaped {
            return visitor.visit_borrowed_str(text.raw);
        }
        visitor.visit_string(text.decode().map_err(|fault| fault.at(start))?.into_owned())
    }

    #[inline(always)]
    fn deserialize_i64<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value> {
        match self.first() {
            Some(b'-' | b'0'..=b'9') => visitor.visit_i64(self.cursor.integer()?),
            _ => Err(self.wrong_type("an integer")),
        }
    }

    #[inline(always)]
    fn deserialize_bool<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value> {
        match self.first() {
            Some(b't' | b'f') => visitor.visit_bool(self.cursor.boolean()?),
            // Some producers write booleans as text.
            Some(b'"') if self.cursor.eat("\"true\"") => visitor.visit_bool(true),
            Some(b'"') if self.cursor.eat("\"false\"") => visitor.visit_bool(false),
            _ => Err(self.wrong_type("a boolean")),
        }
    }

    #[inline(always)]
    fn deserialize_struct<V: Visitor<'a>>(
        mut self,
        name: &'static str,
        members: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        if self.first() != Some(b'{') {
            return Err(self.wrong_type("an object"));
        }
        let JsonValue {
            cursor, context, ..
        } = self;
        let object = cursor.object()?;
        let names = context.members().index(members);
        let access = MemberAccess {
            cursor,
            context,
            object,
            name,
            names,
            key: NameId::START,
        };
        // Derived code detects a missing member at the object's end, and a duplicate before its value.
        visitor.visit_map(access).map_err(|fault| {
            cursor.peek();
            fault.at(cursor.at())
        })
    }

    fn deserialize_seq<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value> {
        if self.first() != Some(b'[') {
            return Err(self.wrong_type("an array"));
        }
        let elements = self.cursor.array()?;
        visitor.visit_seq(ElementAccess {
            cursor: self.cursor,
            context: self.context,
            elements,
        })
    }

    #[inline(always)]
    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        token: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        match token {
            VALUE => {
                self.cursor.peek();
                let start = self.cursor.at();
                match self.cursor.value()? {
                    Value::Text(text) => visitor.visit_borrowed_str(text),
                    _ => visitor.visit_newtype_struct(BorrowedStrDeserializer::<Fault>::new(
                        self.cursor.since(start),
                    )),
                }
            }
            NESTED => match self.cursor.optional_nested()? {
                Some(text) => visitor.visit_borrowed_str(text),
                None => visitor.visit_none(),
            },
            token => self.context.read_part(token, self.cursor)?.visit(visitor),
        }
    }

    #[inline(always)]
    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value> {
        self.cursor.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char string bytes byte_buf unit unit_struct tuple tuple_struct map enum identifier
    }
}

/// The members of an object that becomes a struct.
struct MemberAccess<'d, 'a, C> {
    cursor: &'d mut Cursor<'a>,
    context: &'d mut C,
    object: Members,
    /// The struct, and its index in [`MemberNames`].
    name: &'static str,
    names: usize,
    /// The member that was read last.
    key: NameId,
}

impl<'a, C: Context<'a>> MapAccess<'a> for MemberAccess<'_, 'a, C> {
    type Error = Fault;

    #[inline(always)]
    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        if !self.cursor.next_member(&mut self.object)? {
            return Ok(None);
        }
        let names = self.context.members().get(self.names);
        self.key = names.read(self.cursor, self.key)?;
        let member = names.column(self.key);
        if member.is_none() {
            self.context.unknown_member(self.name);
        }
        // Derived code ignores an index beyond its members.
        let index: U64Deserializer<Fault> = member
            .map_or(u64::MAX, |index| index as u64)
            .into_deserializer();
        seed.deserialize(index).map(Some)
    }

    #[inline(always)]
    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value> {
        let value = JsonValue {
            cursor: self.cursor,
            context: self.context,
            or_null: false,
        };
        seed.deserialize(value)
            .map_err(|fault| self.within_member(fault))
    }
}

impl<'a, C: Context<'a>> MemberAccess<'_, 'a, C> {
    #[cold]
    fn within_member(&mut self, fault: Fault) -> Fault {
        fault.within(self.context.members().get(self.names).name(self.key))
    }
}

/// The elements of an array.
struct ElementAccess<'d, 'a, C> {
    cursor: &'d mut Cursor<'a>,
    context: &'d mut C,
    elements: Elements,
}

impl<'a, C: Context<'a>> SeqAccess<'a> for ElementAccess<'_, 'a, C> {
    type Error = Fault;

    #[inline(always)]
    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if !self.cursor.next_element(&mut self.elements)? {
            return Ok(None);
        }
        seed.deserialize(JsonValue {
            cursor: self.cursor,
            context: self.context,
            or_null: false,
        })
        .map(Some)
    }
}

/// serde requires it. Users see an [`Error`](crate::error::Error).
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(what: T) -> Self {
        Fault::new(Kind::Envelope, what.to_string())
    }

    fn missing_field(member: &'static str) -> Self {
        Fault::new(Kind::Envelope, "is missing").within(member)
    }

    #[cold]
    fn duplicate_field(member: &'static str) -> Self {
        Fault::new(Kind::Envelope, "duplicate member").within(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct Envelope<'a> {
        name: CowStr<'a>,
        number: Option<i64>,
        flag: Option<bool>,
        #[serde(default)]
        inner: Vec<Inner>,
        #[serde(default)]
        any: RawValue<'a>,
        nested: Option<RawNested<'a>>,
        #[serde(default, deserialize_with = "is_there")]
        there: bool,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        number: i64,
    }

    #[derive(Default)]
    struct NoParts {
        members: MemberNames,
        unknown: Vec<&'static str>,
    }

    impl<'a> Context<'a> for NoParts {
        fn members(&mut self) -> &mut MemberNames {
            &mut self.members
        }

        fn read_part(&mut self, _: &'static str, _: &mut Cursor<'a>) -> Result<Part<'a>> {
            Ok(Part::None)
        }

        fn unknown_member(&mut self, of: &'static str) {
            self.unknown.push(of);
        }
    }

    fn error(text: &str) -> String {
        let error = read::<Envelope<'_>>(&mut Cursor::new(text, false), &mut NoParts::default())
            .unwrap_err()
            .into_error("json", None, 0);
        format!("{} at {:?}", error.message, error.byte.unwrap())
    }

    #[test]
    fn members_in_any_order() {
        let mut context = NoParts::default();
        let texts = [
            r#"{"name":"a","number":-5,"flag":true,"inner":[{"number":1},{"number":2}],"any":[1],"nested":{"b":0},"there":null}"#,
            r#"{"there":{}, "nested":{"b":0},"x":[{}],"any":[1], "inner":[{"number":1,"y":0},{"number":2}],"flag":true,"number":-5,"name":"a"}"#,
            r#"{"n\u0061me":"\u0061","number":-5,"flag":true,"inner":[{"number":1},{"number":2}],"any":[1],"nested":{"b":0},"there":0}"#,
        ];
        for text in texts.iter().cycle().take(9) {
            let read: Envelope<'_> = read(&mut Cursor::new(text, false), &mut context).unwrap();
            assert_eq!(
                (&*read.name.0, read.number, read.flag, read.there),
                ("a", Some(-5), Some(true), true),
                "{text}"
            );
            assert_eq!(
                read.inner
                    .iter()
                    .map(|inner| inner.number)
                    .collect::<Vec<_>>(),
                [1, 2],
                "{text}"
            );
            assert_eq!(
                (read.any.0, read.nested.map(|nested| nested.0)),
                (Value::Nested("[1]"), Some(r#"{"b":0}"#)),
                "{text}"
            );
        }
        assert_eq!(context.unknown, ["Envelope", "Inner"].repeat(3));
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        let text = r#"{"name":"a","any":"b"}"#;
        let read: Envelope<'_> =
            read(&mut Cursor::new(text, false), &mut NoParts::default()).unwrap();
        assert!(matches!(
            (read.name.0, read.any.0, read.number, read.there),
            (Cow::Borrowed("a"), Value::Text("b"), None, false)
        ));
    }

    #[test]
    fn errors_have_the_path_and_the_byte() {
        assert_eq!(error("[]"), "json: expected an object, found an array at 0");
        assert_eq!(error("{}"), "json: name: is missing at 2");
        assert_eq!(
            error(r#"{"name":null}"#),
            "json: name: expected text, found null at 8"
        );
        assert_eq!(
            error(r#"{"number":"1"}"#),
            "json: number: expected an integer or null, found text at 10"
        );
        assert_eq!(
            error(r#"{"flag":1}"#),
            "json: flag: expected a boolean or null, found a number at 8"
        );
        assert_eq!(
            error(r#"{"nested":1}"#),
            "json: nested: expected an object or null, found a number at 10"
        );
        assert_eq!(
            error(r#"{"inner":1}"#),
            "json: inner: expected an array, found a number at 9"
        );
        assert_eq!(
            error(r#"{"inner":[1]}"#),
            "json: inner: expected an object, found a number at 10"
        );
        assert_eq!(
            error(r#"{"inner":[{"number":1,"number":1}]}"#),
            "json: inner.number: duplicate member at 31"
        );
        assert_eq!(
            error(r#"{"x":[1,]}"#),
            "json: x: expected a value, found ']' at 8"
        );
    }

    #[test]
    fn names_of_members() {
        assert_eq!(member_names::<Inner>(), ["number"]);
        assert_eq!(member_names::<i64>(), [""; 0]);
    }
}
