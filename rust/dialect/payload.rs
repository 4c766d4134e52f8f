//! Reading of a message of a known or unknown dialect: its expansion, its detection, and the key of a record without a
//! value.

use std::borrow::Cow;
use std::cell::Cell;

use super::debezium::debezium_avro::{self, is_known, is_tidb, schema_id};
use super::debezium::{self, ticdc_avro, ticdc_rows};
use super::detect::{by_bytes, by_members, undetected};
use super::foreign::explained;
use super::{
    Caches, DIALECTS, Dialect, DialectOptions, Marks, Read, ReadContext, Wire, begins_like_json,
    claim_check, ticdc_open, ticdc_simple, without_schema_id,
};
use crate::error::{Fault, Kind, Result};
use crate::event::{Events, Op, Quirks};
use crate::wire::compression::{Compression, expand};
use crate::wire::utf8;

/// An expanded message, or the fault that prevents its expansion.
pub(crate) enum Payload<'a> {
    Tombstone,
    /// No bytes. The record's key may explain the message. Only if the dialect is unknown.
    Empty,
    Bytes(Cow<'a, [u8]>),
    /// A claim-checked message, which TiCDC stored with its key.
    Stored(claim_check::Stored),
    Invalid(Cell<Option<Fault>>),
}

impl<'a> Payload<'a> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::Bytes(bytes) => bytes,
            Payload::Stored(stored) => &stored.value,
            _ => &[],
        }
    }

    /// Returns the payload of a message that refers to a stored message.
    pub fn unread(why: &str) -> Self {
        Payload::Invalid(Cell::new(Some(Fault::new(
            Kind::Envelope,
            format!("the stored message cannot be read: {why}"),
        ))))
    }
}

/// Detects the dialect of a message, which may be compressed or claim-checked by TiCDC.
pub fn detect(message: &[u8]) -> Option<&'static Dialect> {
    let expanded =
        expand(message, Compression::Auto, begins_like_message).unwrap_or(Cow::Borrowed(message));
    match claim_check::unwrap(&expanded) {
        Some(Ok(stored)) => super::detect::detect(&stored.value),
        _ => super::detect::detect(&expanded),
    }
}

/// Returns whether bytes begin like a JSON message, or like a message of TiCDC's simple protocol in Avro. No
/// compression writes such bytes.
fn begins_like_message(bytes: &[u8]) -> bool {
    begins_like_json(without_schema_id(bytes)) || ticdc_simple::is_avro(bytes)
}

/// Returns whether messages of a dialect refer to schemas by their ids.
fn has_schemas(dialect: &Dialect) -> bool {
    matches!(dialect.name, debezium_avro::NAME | ticdc_rows::NAME)
}

/// Returns whether a key is an Avro datum after a schema id. The id is not sufficient: JSON may follow an id, too. A
/// datum may also begin like JSON.
fn is_avro(key: &[u8], caches: &Caches<'_>) -> bool {
    is_known(key, caches) || schema_id(key).is_some() && !begins_like_json(without_schema_id(key))
}

/// Result of the detection of a message's dialect.
enum Found {
    Dialect(&'static Dialect),
    /// The message has been read already.
    Read(Result<&'static Dialect>),
}

impl DialectOptions {
    /// Returns the name of the requested dialect.
    pub fn dialect_name(&self) -> &'static str {
        self.dialect.map_or("auto", |dialect| dialect.name)
    }

    /// Returns whether messages may refer to schemas by their ids.
    pub fn may_have_schemas(&self) -> bool {
        self.dialect.is_none_or(has_schemas)
    }

    /// Returns the ids of the schemas that a message and its key refer to.
    pub fn schema_ids(&self, message: Option<&[u8]>, key: Option<&[u8]>) -> [Option<u32>; 2] {
        let id = message.and_then(|message| self.schema_id(message));
        // The key of an empty message may be a delete by TiCDC.
        if id.is_none() && message.is_some_and(|message| !message.is_empty()) {
            return [None, None];
        }
        [id, key.and_then(schema_id)]
    }

    fn schema_id(&self, message: &[u8]) -> Option<u32> {
        let payload = match self.compression {
            Compression::Auto | Compression::None => Payload::Bytes(Cow::Borrowed(message)),
            _ => self.expand(message),
        };
        let id = schema_id(payload.bytes())?;
        if self.dialect.is_none()
            && !super::detect::detect(payload.bytes()).is_some_and(has_schemas)
        {
            return None;
        }
        Some(id)
    }

    /// Expands a message. Treats a message without bytes like null.
    pub fn payload<'a>(&self, message: Option<&'a [u8]>) -> Payload<'a> {
        match (message, self.dialect) {
            (None, _) => Payload::Tombstone,
            (Some([]), None) => Payload::Empty,
            (Some([]), Some(dialect)) if !matches!(dialect.read, Read::Keyed(_)) => {
                Payload::Tombstone
            }
            (Some(message), _) => self.expand(message),
        }
    }

    fn expand<'a>(&self, message: &'a [u8]) -> Payload<'a> {
        match self.try_expand(message) {
            Ok(payload) => payload,
            Err(fault) => Payload::Invalid(Cell::new(Some(fault))),
        }
    }

    fn try_expand<'a>(&self, message: &'a [u8]) -> Result<Payload<'a>> {
        // Only JSON is distinguishable from compressed bytes. The other formats may begin with any byte.
        let is_plain = |bytes: &[u8]| {
            self.dialect
                .is_some_and(|dialect| dialect.wire != Wire::Json)
                || begins_like_message(bytes)
        };
        let bytes = expand(message, self.compression, is_plain)?;
        if self.may_be_stored()
            && let Some(stored) = claim_check::unwrap(&bytes)
        {
            let claim_check::Stored { key, value } = stored?;
            let value = expand(&value, self.compression, is_plain)?.into_owned();
            return Ok(Payload::Stored(claim_check::Stored { key, value }));
        }
        Ok(Payload::Bytes(bytes))
    }

    /// Returns whether messages may be files in which TiCDC stored them. A row without an envelope may have the same
    /// members as such a file.
    fn may_be_stored(&self) -> bool {
        match self.dialect {
            Some(dialect) => claim_check::is_stored(dialect.name),
            None => !self.unwrapped,
        }
    }

    /// Returns the JSON of a message that a template may match.
    #[inline]
    pub fn template_json<'p>(&self, payload: &'p Payload<'_>) -> Option<&'p [u8]> {
        match payload {
            Payload::Bytes(bytes) if self.has_templates => {
                Some(without_schema_id(bytes)).filter(|json| json.starts_with(b"{"))
            }
            _ => None,
        }
    }

    /// Reads a message into events. Returns its dialect, or `None` for a tombstone or a message that cannot be read.
    pub fn read<'a>(
        &self,
        payload: &'a Payload<'_>,
        key: Option<&'a [u8]>,
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Option<&'static Dialect> {
        let result = match payload {
            Payload::Empty if key.is_some_and(ticdc_open::is_key) => {
                self.read_bytes(&[], key, events, caches)
            }
            Payload::Tombstone | Payload::Empty => match self.read_key(key, events, caches) {
                Ok(true) => return None,
                Ok(false) => {
                    events.push_message(Op::Tombstone, None);
                    return None;
                }
                Err(fault) => Err(fault),
            },
            Payload::Bytes(bytes) => self.read_bytes(bytes, key, events, caches),
            Payload::Stored(stored) => {
                self.read_bytes(&stored.value, stored.key.as_deref().or(key), events, caches)
            }
            Payload::Invalid(fault) => Err(fault
                .take()
                .unwrap_or_else(|| Fault::new(Kind::Compression, "is broken"))),
        };
        result
            .map_err(|fault| events.fail_message(explained(fault, payload.bytes())))
            .ok()
    }

    /// Reads a record without a value, whose key may be a delete by TiCDC or the key of a row without an envelope.
    /// Returns whether the key was one of both.
    fn read_key<'a>(
        &self,
        key: Option<&'a [u8]>,
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Result<bool> {
        if let Some(key) = key.filter(|key| self.is_key_of_row(key, caches)) {
            let quirks = (debezium::DIALECT.quirks)(&self.name);
            debezium::read_deleted(key, &self.context(quirks, None), events)?;
            return events.check_rows().map(|()| true);
        }
        if let Some(key) = key.filter(|key| self.is_avro_key_of_row(key, caches)) {
            debezium_avro::read_deleted_row(key, self, events, caches)?;
            return events.check_rows().map(|()| true);
        }
        let is_named = self.dialect_name() == ticdc_rows::NAME;
        let may_be_delete = is_named || self.dialect.is_none() && key.and_then(schema_id).is_some();
        if !may_be_delete {
            return Ok(false);
        }
        ticdc_avro::read_key(key, is_named, self, events, caches)
    }

    /// Returns whether a JSON key names the row that a record without a value deletes. The option `unwrapped` must be
    /// set.
    fn is_key_of_row(&self, key: &[u8], caches: &Caches<'_>) -> bool {
        self.unwrapped
            && match self.dialect {
                Some(dialect) if dialect.name == debezium_avro::NAME => schema_id(key).is_none(),
                Some(dialect) => dialect.name == debezium::DIALECT.name,
                None => !is_avro(key, caches),
            }
    }

    /// Returns whether an Avro key names the row that a record without a value deletes.
    fn is_avro_key_of_row(&self, key: &[u8], caches: &Caches<'_>) -> bool {
        self.unwrapped
            && match self.dialect {
                Some(dialect) => dialect.name == debezium_avro::NAME && schema_id(key).is_some(),
                None => is_avro(key, caches) && !is_tidb(key, caches),
            }
    }

    fn read_bytes<'a>(
        &self,
        bytes: &'a [u8],
        key: Option<&'a [u8]>,
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Result<&'static Dialect> {
        let mut found = match self.dialect {
            Some(dialect) => Some(Found::Dialect(dialect)),
            None => self.detect_or_read(bytes, events, caches),
        };
        if found.is_none() && bytes.is_empty() && key.is_some_and(ticdc_open::is_key) {
            found = Some(Found::Dialect(&ticdc_open::DIALECT));
        }
        let dialect = match found.ok_or_else(|| undetected(bytes))? {
            Found::Dialect(dialect) => self
                .read_as(dialect, bytes, key, events, caches)
                .map(|()| dialect),
            Found::Read(read) => read,
        }?;
        events.check_rows()?;
        Ok(dialect)
    }

    /// Detects the dialect of a message. Reads a record of DTS at once, unless its first fields have a fault; then it
    /// only detects it. With the option `unwrapped`, unknown JSON objects are Debezium's rows.
    fn detect_or_read<'a>(
        &self,
        bytes: &'a [u8],
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Option<Found> {
        let json = without_schema_id(bytes);
        if begins_like_json(json) {
            return match by_members(json).or_else(|| by_bytes(bytes)) {
                None if self.unwrapped => Some(Found::Dialect(&debezium::DIALECT)),
                found => found.map(Found::Dialect),
            };
        }
        for dialect in DIALECTS {
            if let Marks::BytesOrRead(_, try_read) = dialect.marks
                && let Some(read) = try_read(bytes, self, events, caches)
            {
                return Some(Found::Read(read.map(|()| dialect)));
            }
            if dialect.marks.matches(bytes) {
                return Some(Found::Dialect(dialect));
            }
        }
        None
    }

    fn read_as<'a>(
        &self,
        dialect: &Dialect,
        bytes: &'a [u8],
        key: Option<&'a [u8]>,
        events: &mut Events<'a>,
        caches: &mut Caches<'a>,
    ) -> Result<()> {
        let quirks = (dialect.quirks)(&self.name);
        let reading = self.context(quirks, key);
        events.set_dialect(quirks);
        match dialect.read {
            Read::Text(read) => {
                let json = without_schema_id(bytes);
                let text = utf8::text(json, "the message is not UTF-8");
                text.and_then(|text| read(text, &reading, events))
                    .map_err(|fault| fault.shifted(bytes.len() - json.len()))
            }
            Read::Bytes(read) => read(bytes, &reading, events, caches),
            Read::Keyed(read) => read(bytes, &reading, events),
        }
    }

    /// Returns the context of a message.
    pub(super) fn context<'a>(
        &self,
        quirks: &'static Quirks,
        key: Option<&'a [u8]>,
    ) -> ReadContext<'_, 'a> {
        ReadContext {
            quirks,
            lenient: self.lenient,
            key,
            options: self,
        }
    }
}
