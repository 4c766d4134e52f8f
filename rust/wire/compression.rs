//! Decompression of messages that their producer compressed (the Kafka client handles Kafka's own compression).

use std::borrow::Cow;
use std::io::Read;

use crate::error::{Fault, Kind, Result};
use crate::named::named_enum;

/// Limit of the expanded size of a message, in bytes.
pub(crate) const MAX_EXPANDED: usize = 256 << 20;

named_enum! {
    /// Compression of messages.
    #[derive(Default)]
    pub enum Compression {
        /// Bytes that do not begin like a message are tried as an LZ4 frame, then as a raw Snappy block.
        #[default]
        Auto = "auto",
        /// No compression.
        None = "none",
        /// LZ4 frames.
        Lz4 = "lz4",
        /// Raw Snappy blocks.
        Snappy = "snappy",
        /// gzip members.
        Gzip = "gzip",
        /// Zstandard frames.
        Zstd = "zstd",
    }
}

const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4D, 0x18];

/// Returns the expanded message; borrowed if it was not compressed. `is_plain` returns whether bytes begin like a message.
#[inline]
pub(crate) fn expand<'a>(bytes: &'a [u8], compression: Compression, is_plain: impl Fn(&[u8]) -> bool) -> Result<Cow<'a, [u8]>> {
    match compression {
        Compression::None => Ok(Cow::Borrowed(bytes)),
        Compression::Auto if bytes.is_empty() || is_plain(bytes) => Ok(Cow::Borrowed(bytes)),
        _ => decompress(bytes, compression, is_plain),
    }
}

/// Out of line: the decompressors' stack frames take 50 KiB, which each call probes page by page.
#[inline(never)]
fn decompress<'a>(bytes: &'a [u8], compression: Compression, is_plain: impl Fn(&[u8]) -> bool) -> Result<Cow<'a, [u8]>> {
    match compression {
        Compression::None => Ok(Cow::Borrowed(bytes)),
        Compression::Auto if !bytes.starts_with(&LZ4_MAGIC) => Ok(try_snappy(bytes, is_plain)),
        Compression::Auto | Compression::Lz4 => lz4(bytes),
        Compression::Snappy => snappy(bytes),
        Compression::Gzip => read_all(flate2::read::MultiGzDecoder::new(bytes), "gzip"),
        Compression::Zstd => match ruzstd::decoding::StreamingDecoder::new(bytes) {
            Ok(decoder) => read_all(decoder, "a Zstandard frame"),
            Err(error) => Err(invalid("a Zstandard frame", &error)),
        },
    }
}

/// Tries to expand a raw Snappy block, which has no magic number. If the result does not begin like a message, the bytes are
/// returned unchanged, for the dialect to reject.
fn try_snappy<'a>(bytes: &'a [u8], is_plain: impl Fn(&[u8]) -> bool) -> Cow<'a, [u8]> {
    // Cheap rejection: nearly all bytes that get here are a message in another wire format.
    if snap::raw::decompress_len(bytes).is_ok_and(|length| length < bytes.len() / 2) {
        return Cow::Borrowed(bytes);
    }
    snappy(bytes).ok().filter(|message| is_plain(message)).unwrap_or(Cow::Borrowed(bytes))
}

fn lz4(bytes: &[u8]) -> Result<Cow<'static, [u8]>> {
    // The decoder accepts the end of the input as the end of the frame; the end mark distinguishes them.
    const END: [u8; 4] = [0; 4];
    const HAS_CHECKSUM: u8 = 4;
    let checksum = if bytes.get(4).is_some_and(|flags| flags & HAS_CHECKSUM != 0) { 4 } else { 0 };
    let end = bytes.len().checked_sub(checksum).and_then(|end| bytes.get(..end));
    if !end.is_some_and(|frame| frame.ends_with(&END)) {
        return Err(invalid("an LZ4 frame", &"it has no end"));
    }
    read_all(lz4_flex::frame::FrameDecoder::new(bytes), "an LZ4 frame")
}

fn snappy(bytes: &[u8]) -> Result<Cow<'static, [u8]>> {
    let length = snap::raw::decompress_len(bytes).map_err(|error| invalid("a Snappy block", &error))?;
    // The declared length is checked before the allocation; a Snappy block expands at most 64-fold.
    if length > MAX_EXPANDED || length / 64 > bytes.len() {
        return Err(too_large());
    }
    let expanded = snap::raw::Decoder::new().decompress_vec(bytes);
    expanded.map(Cow::Owned).map_err(|error| invalid("a Snappy block", &error))
}

fn read_all(decoder: impl Read, what: &str) -> Result<Cow<'static, [u8]>> {
    let mut expanded = Vec::new();
    decoder.take(MAX_EXPANDED as u64 + 1).read_to_end(&mut expanded).map_err(|error| invalid(what, &error))?;
    if expanded.len() > MAX_EXPANDED {
        return Err(too_large());
    }
    Ok(Cow::Owned(expanded))
}

fn invalid(what: &str, error: &dyn std::fmt::Display) -> Fault {
    Fault::new(Kind::Compression, format!("not {what}: {error}"))
}

fn too_large() -> Fault {
    Fault::new(Kind::Compression, format!("expands beyond {MAX_EXPANDED} bytes"))
}
