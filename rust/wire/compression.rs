//! Messages that were compressed by their producer (Kafka's own compression is undone by the Kafka client).

use std::borrow::Cow;
use std::io::Read;

use crate::error::{Fault, Kind, Result};
use crate::named::named_enum;

/// How far a compressed message may expand, in bytes.
pub(crate) const MAX_EXPANDED: usize = 256 << 20;

named_enum! {
    /// How messages are compressed.
    #[derive(Default)]
    pub enum Compression {
        /// What does not begin like a message is tried as an LZ4 frame, then as a raw Snappy block.
        #[default]
        Auto = "auto",
        /// Nothing is compressed.
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

/// The message itself; borrowed where it was not compressed. `plain` tells whether bytes begin like a message.
#[inline]
pub(crate) fn expand<'a>(bytes: &'a [u8], how: Compression, plain: impl Fn(&[u8]) -> bool) -> Result<Cow<'a, [u8]>> {
    match how {
        Compression::None => Ok(Cow::Borrowed(bytes)),
        Compression::Auto if bytes.is_empty() || plain(bytes) => Ok(Cow::Borrowed(bytes)),
        _ => decompress(bytes, how, plain),
    }
}

/// Out of line: the decompressors' stack frames have 50 KiB, which are probed page by page on each call.
#[inline(never)]
fn decompress<'a>(bytes: &'a [u8], how: Compression, plain: impl Fn(&[u8]) -> bool) -> Result<Cow<'a, [u8]>> {
    match how {
        Compression::None => Ok(Cow::Borrowed(bytes)),
        Compression::Auto if !bytes.starts_with(&LZ4_MAGIC) => Ok(guess_snappy(bytes, plain)),
        Compression::Auto | Compression::Lz4 => lz4(bytes),
        Compression::Snappy => snappy(bytes),
        Compression::Gzip => read(flate2::read::MultiGzDecoder::new(bytes), "gzip"),
        Compression::Zstd => match ruzstd::decoding::StreamingDecoder::new(bytes) {
            Ok(decoder) => read(decoder, "a Zstandard frame"),
            Err(error) => Err(broken("a Zstandard frame", &error)),
        },
    }
}

/// A Snappy block has no magic: what does not expand to something that begins like a message is left as it is, for the
/// dialect to refuse.
fn guess_snappy<'a>(bytes: &'a [u8], plain: impl Fn(&[u8]) -> bool) -> Cow<'a, [u8]> {
    // Without a look at what is wrong with the rest: nearly everything that comes here is another wire's message.
    if snap::raw::decompress_len(bytes).is_ok_and(|length| length < bytes.len() / 2) {
        return Cow::Borrowed(bytes);
    }
    snappy(bytes).ok().filter(|message| plain(message)).unwrap_or(Cow::Borrowed(bytes))
}

fn lz4(bytes: &[u8]) -> Result<Cow<'static, [u8]>> {
    // The decoder takes the end of the input for the end of the frame; the mark of the end is what tells them apart.
    const END: [u8; 4] = [0; 4];
    const HAS_CHECKSUM: u8 = 4;
    let checksum = if bytes.get(4).is_some_and(|flags| flags & HAS_CHECKSUM != 0) { 4 } else { 0 };
    let end = bytes.len().checked_sub(checksum).and_then(|end| bytes.get(..end));
    if !end.is_some_and(|frame| frame.ends_with(&END)) {
        return Err(broken("an LZ4 frame", &"it has no end"));
    }
    read(lz4_flex::frame::FrameDecoder::new(bytes), "an LZ4 frame")
}

fn snappy(bytes: &[u8]) -> Result<Cow<'static, [u8]>> {
    let length = snap::raw::decompress_len(bytes).map_err(|error| broken("a Snappy block", &error))?;
    // The claimed length is checked before it is allocated; a Snappy block expands 64-fold at the most.
    if length > MAX_EXPANDED || length / 64 > bytes.len() {
        return Err(too_large());
    }
    let expanded = snap::raw::Decoder::new().decompress_vec(bytes);
    expanded.map(Cow::Owned).map_err(|error| broken("a Snappy block", &error))
}

fn read(decoder: impl Read, what: &str) -> Result<Cow<'static, [u8]>> {
    let mut expanded = Vec::new();
    decoder.take(MAX_EXPANDED as u64 + 1).read_to_end(&mut expanded).map_err(|error| broken(what, &error))?;
    if expanded.len() > MAX_EXPANDED {
        return Err(too_large());
    }
    Ok(Cow::Owned(expanded))
}

fn broken(what: &str, error: &dyn std::fmt::Display) -> Fault {
    Fault::new(Kind::Compression, format!("not {what}: {error}"))
}

fn too_large() -> Fault {
    Fault::new(Kind::Compression, format!("expands beyond {MAX_EXPANDED} bytes"))
}
