//! Decompression of messages that their producer compressed. The Kafka client handles Kafka's own compression.
//!
//! A compressed message is one or more frames (gzip: members), whose contents are concatenated. Checksums and declared
//! sizes are verified, and every byte belongs to a frame. A Snappy block has neither frames nor checksums.

use std::borrow::Cow;
use std::io::Read;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::error::{Fault, Kind, Result};
use crate::named::named_enum;

/// Limit of the expanded size of a message, in bytes.
pub(crate) const MAX_EXPANDED: usize = 256 << 20;
/// Maximum number of frames in a message. A frame costs its decoder up to some megabytes of cleared memory, even with a
/// single byte.
const MAX_FRAMES: usize = 10_000;

named_enum! {
    /// Compression of messages.
    #[derive(Default)]
    pub enum Compression {
        /// Tries bytes that do not begin like a message as an LZ4 frame, then as a raw Snappy block.
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

const LZ4: &str = "LZ4 frame";
const ZSTD: &str = "Zstandard frame";
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4D, 0x18];

/// Returns the expanded message, borrowed if it was not compressed. `is_plain` returns whether bytes begin like a
/// message.
#[inline]
pub(crate) fn expand<'a>(
    bytes: &'a [u8],
    compression: Compression,
    is_plain: impl Fn(&[u8]) -> bool,
) -> Result<Cow<'a, [u8]>> {
    match compression {
        Compression::None => Ok(Cow::Borrowed(bytes)),
        Compression::Auto if bytes.is_empty() || !may_be_compressed(bytes) || is_plain(bytes) => {
            Ok(Cow::Borrowed(bytes))
        }
        _ => decompress(bytes, compression, is_plain),
    }
}

/// Rejects messages in other wire formats cheaply. A Snappy block begins with its expanded length.
fn may_be_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&LZ4_MAGIC)
        || !snap::raw::decompress_len(bytes).is_ok_and(|length| length < bytes.len() / 2)
}

/// Expands a message. Not inlined: the decompressors' stack frames take 50 KiB, which each call probes page by page.
#[inline(never)]
fn decompress<'a>(
    bytes: &'a [u8],
    compression: Compression,
    is_plain: impl Fn(&[u8]) -> bool,
) -> Result<Cow<'a, [u8]>> {
    match compression {
        Compression::None => Ok(Cow::Borrowed(bytes)),
        Compression::Auto if !bytes.starts_with(&LZ4_MAGIC) => Ok(try_snappy(bytes, is_plain)),
        Compression::Auto | Compression::Lz4 => lz4(bytes),
        Compression::Snappy => snappy(bytes),
        Compression::Gzip => Expanded::default()
            .with(flate2::read::MultiGzDecoder::new(bytes), "gzip")
            .map(Expanded::into),
        Compression::Zstd => zstd(bytes),
    }
}

/// Tries to expand a raw Snappy block, which has no magic number. If the result does not begin like a message, returns
/// the bytes unchanged, and the dialect rejects them.
fn try_snappy<'a>(bytes: &'a [u8], is_plain: impl Fn(&[u8]) -> bool) -> Cow<'a, [u8]> {
    snappy(bytes)
        .ok()
        .filter(|message| is_plain(message))
        .unwrap_or(Cow::Borrowed(bytes))
}

fn zstd(bytes: &[u8]) -> Result<Cow<'static, [u8]>> {
    let (mut expanded, mut decoder) = (Expanded::default(), FrameDecoder::new());
    let mut frames = Frames::of(bytes, ZSTD);
    while let Some(mut rest) = frames.next_frame()? {
        let (header, length) = (rest, expanded.0.len());
        let frame = StreamingDecoder::new_with_decoder(&mut rest, &mut decoder)
            .map_err(|error| invalid(ZSTD, &error))?;
        expanded = expanded.with(frame, ZSTD)?;
        check_zstd(header, &decoder, expanded.0.len() - length)?;
        frames.rest = rest;
    }
    Ok(expanded.into())
}

/// Checks the size and checksum that a Zstandard frame declares. The decoder reads them but does not check them.
fn check_zstd(frame: &[u8], decoder: &FrameDecoder, length: usize) -> Result<()> {
    // Flags of the size field. The second flag implies a one-byte field.
    const HAS_SIZE: u8 = 0b1110_0000;
    if frame.get(4).is_some_and(|flags| flags & HAS_SIZE != 0)
        && decoder.content_size() != length as u64
    {
        return Err(invalid(
            ZSTD,
            &format!(
                "it has {length} bytes, but declares {}",
                decoder.content_size()
            ),
        ));
    }
    match decoder.get_checksum_from_data() {
        Some(checksum) if decoder.get_calculated_checksum() != Some(checksum) => {
            Err(invalid(ZSTD, &"its checksum does not match"))
        }
        _ => Ok(()),
    }
}

fn lz4(bytes: &[u8]) -> Result<Cow<'static, [u8]>> {
    let (mut expanded, mut decoder) = (
        Expanded::default(),
        lz4_flex::frame::FrameDecoder::new(&[][..]),
    );
    let mut frames = Frames::of(bytes, LZ4);
    while let Some(rest) = frames.next_frame()? {
        // The decoder accepts the end of the input as the end of a frame, so it gets a whole frame.
        let length = lz4_length(rest).ok_or_else(|| invalid(LZ4, &"it is truncated"))?;
        let (frame, rest) = rest
            .split_at_checked(length)
            .ok_or_else(|| invalid(LZ4, &"it is truncated"))?;
        *decoder.get_mut() = frame;
        // An empty block ends the decoder's output, but not the frame.
        while !decoder.get_ref().is_empty() {
            expanded = expanded.with(&mut decoder, LZ4)?;
        }
        frames.rest = rest;
    }
    Ok(expanded.into())
}

/// Returns the length of the LZ4 frame at the start of `bytes`, by the sizes of its blocks.
fn lz4_length(bytes: &[u8]) -> Option<usize> {
    let flags = bytes.strip_prefix(&LZ4_MAGIC)?.first()?;
    let field = |bit: u8, length: usize| if flags >> bit & 1 == 1 { length } else { 0 };
    let (dictionary, checksum, size, block_checksum) =
        (field(0, 4), field(2, 4), field(3, 8), field(4, 4));
    let mut at = 7 + size + dictionary;
    loop {
        let block = u32_at(bytes, at)?;
        at += 4;
        match block {
            0 => return Some(at + checksum),
            // The highest bit marks uncompressed blocks.
            _ => at += (block & 0x7FFF_FFFF) as usize + block_checksum,
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|bytes| u32::from_le_bytes(*bytes))
}

/// Frames of a message without the skippable ones, which are the same in LZ4 and Zstandard.
struct Frames<'a> {
    rest: &'a [u8],
    what: &'static str,
    count: usize,
}

impl<'a> Frames<'a> {
    fn of(bytes: &'a [u8], what: &'static str) -> Self {
        Frames {
            rest: bytes,
            what,
            count: 0,
        }
    }

    /// Returns the bytes from the next frame on. The caller sets `rest` to the bytes after the frame.
    fn next_frame(&mut self) -> Result<Option<&'a [u8]>> {
        while let Some(length) = skippable_length(self.rest) {
            self.rest = self
                .rest
                .get(length..)
                .ok_or_else(|| invalid(self.what, &"a skippable frame is truncated"))?;
        }
        if self.rest.is_empty() && self.count > 0 {
            return Ok(None);
        }
        self.count += 1;
        match self.count {
            0..=MAX_FRAMES => Ok(Some(self.rest)),
            _ => Err(Fault::new(
                Kind::Compression,
                format!("has more than {MAX_FRAMES} frames"),
            )),
        }
    }
}

/// Returns the length of the skippable frame at the start of `bytes`, if there is one.
fn skippable_length(bytes: &[u8]) -> Option<usize> {
    const SKIPPABLE: u32 = 0x184D_2A50;
    if u32_at(bytes, 0)? & !0xF != SKIPPABLE {
        return None;
    }
    Some(u32_at(bytes, 4).map_or(usize::MAX, |length| (length as usize).saturating_add(8)))
}

fn snappy(bytes: &[u8]) -> Result<Cow<'static, [u8]>> {
    let length =
        snap::raw::decompress_len(bytes).map_err(|error| invalid("Snappy block", &error))?;
    // Check the declared length before the allocation. A Snappy block expands at most 64-fold.
    if length > MAX_EXPANDED || length / 64 > bytes.len() {
        return Err(too_large());
    }
    let expanded = snap::raw::Decoder::new().decompress_vec(bytes);
    expanded
        .map(Cow::Owned)
        .map_err(|error| invalid("Snappy block", &error))
}

/// Content of the frames so far.
#[derive(Default)]
struct Expanded(Vec<u8>);

impl Expanded {
    /// Appends the output of a decoder. The limit applies to all frames together.
    fn with(mut self, decoder: impl Read, what: &str) -> Result<Self> {
        let left = (MAX_EXPANDED + 1).saturating_sub(self.0.len());
        decoder
            .take(left as u64)
            .read_to_end(&mut self.0)
            .map_err(|error| invalid(what, &error))?;
        if self.0.len() > MAX_EXPANDED {
            Err(too_large())
        } else {
            Ok(self)
        }
    }
}

impl From<Expanded> for Cow<'_, [u8]> {
    fn from(expanded: Expanded) -> Self {
        Cow::Owned(expanded.0)
    }
}

fn invalid(what: &str, error: &dyn std::fmt::Display) -> Fault {
    Fault::new(Kind::Compression, format!("invalid {what}: {error}"))
}

fn too_large() -> Fault {
    Fault::new(
        Kind::Compression,
        format!("expands beyond {MAX_EXPANDED} bytes"),
    )
}
