//! Reads sizes of images, and lengths of audio and files, from the request itself.

use super::image::Size;

/// Bytes of base64 that are decoded at most while a JPEG's size is searched for: behind large EXIF thumbnails.
const MAX_HEADER_BYTES: usize = 96 * 1024;

/// Returns the size of the image in a `data:` URL; `None` for other URLs and for what is no PNG, JPEG, GIF or WebP.
pub(super) fn image_size(url: &str) -> Option<Size> {
    let (head, payload) = url.strip_prefix("data:")?.split_once(',')?;
    if !head.ends_with(";base64") {
        return None;
    }
    image_size_of(payload)
}

/// Returns the size of an image in base64; `None` for what is no PNG, JPEG, GIF or WebP.
pub(super) fn image_size_of(payload: &str) -> Option<Size> {
    let bytes = decode_base64(payload, 64);
    match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => Some(Size { width: be32(&bytes, 16)?, height: be32(&bytes, 20)? }),
        [b'G', b'I', b'F', ..] => Some(Size { width: le16(&bytes, 6)?, height: le16(&bytes, 8)? }),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp(&bytes),
        [0xff, 0xd8, ..] => jpeg(&decode_base64(payload, MAX_HEADER_BYTES)),
        _ => None,
    }
}

fn webp(bytes: &[u8]) -> Option<Size> {
    match bytes.get(12..16)? {
        b"VP8 " => Some(Size { width: le16(bytes, 26)? & 0x3fff, height: le16(bytes, 28)? & 0x3fff }),
        b"VP8L" => {
            let bits = le16(bytes, 21)? | (le16(bytes, 23)? << 16);
            Some(Size { width: (bits & 0x3fff) + 1, height: ((bits >> 14) & 0x3fff) + 1 })
        }
        b"VP8X" => {
            let le24 = |at: usize| Some(le16(bytes, at)? | (u32::from(*bytes.get(at + 2)?) << 16));
            Some(Size { width: le24(24)? + 1, height: le24(27)? + 1 })
        }
        _ => None,
    }
}

/// Walks a JPEG's segments to the frame header.
fn jpeg(bytes: &[u8]) -> Option<Size> {
    let mut at = 2;
    loop {
        while *bytes.get(at)? == 0xff && *bytes.get(at + 1)? == 0xff {
            at += 1;
        }
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        match marker {
            // A start of frame; 0xc4, 0xc8 and 0xcc are tables in the same range.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some(Size { width: be16(bytes, at + 7)?, height: be16(bytes, at + 5)? });
            }
            0x01 | 0xd0..=0xd9 => at += 2,
            _ => at += 2 + be16(bytes, at + 2)?.max(2) as usize,
        }
    }
}

/// Decodes at most `limit` bytes of base64, in either alphabet; stops at the first character that is neither.
fn decode_base64(text: &str, limit: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(limit.min(text.len() * 3 / 4 + 3));
    let (mut bits, mut n_bits) = (0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\n' | b'\r' => continue,
            _ => break,
        };
        bits = (bits << 6) | u32::from(value);
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            out.push((bits >> n_bits) as u8);
            if out.len() == limit {
                break;
            }
        }
    }
    out
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns an estimate for a part of base64 audio: 10 tokens a second at OpenAI, 32 at Google, and compressed speech is rarely
/// under 4 KB a second (5.3 KB of base64).
pub(super) fn audio_tokens(base64_bytes: usize) -> usize {
    64 + base64_bytes / 160
}

/// Returns an estimate for another part whose content is base64 that no vocabulary sees: a page of a PDF is some 1,500 tokens with
/// its picture, and rarely under 20 KB.
pub(super) fn opaque_tokens(base64_bytes: usize) -> usize {
    64 + base64_bytes / 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(bytes: &[u8]) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for chunk in bytes.chunks(3) {
            let word = chunk.iter().enumerate().fold(0_u32, |w, (i, &b)| w | (u32::from(b) << (16 - 8 * i)));
            for i in 0..=chunk.len() {
                out.push(ALPHABET[((word >> (18 - 6 * i)) & 63) as usize] as char);
            }
        }
        out
    }

    fn url(bytes: &[u8]) -> String {
        format!("data:image/x;base64,{}", encode(bytes))
    }

    #[test]
    fn sizes_are_read_from_the_header() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x03\0rest";
        assert_eq!(image_size(&url(png)), Some(Size { width: 1024, height: 768 }));
        let gif = b"GIF89a\x40\x01\xf0\0rest";
        assert_eq!(image_size(&url(gif)), Some(Size { width: 320, height: 240 }));
        let jpeg = [b"\xff\xd8\xff\xe0\0\x04ab".as_slice(), b"\xff\xff\xc2\0\x11\x08\x02\0\x01\0...."].concat();
        assert_eq!(image_size(&url(&jpeg)), Some(Size { width: 256, height: 512 }));
        let webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\x03\0\xff\x01\0";
        assert_eq!(image_size(&url(webp)), Some(Size { width: 1024, height: 512 }));
    }

    #[test]
    fn what_is_no_image_has_no_size() {
        for url in ["https://x.test/a.png", "data:image/png;base64,", "data:image/png,abc", "data:;base64,aGVsbG8=", ""]
        {
            assert_eq!(image_size(url), None, "{url}");
        }
        assert_eq!(image_size(&url(b"\xff\xd8\xff\xd9")), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4) {
            let magic: &[u8] = [b"\x89PNG".as_slice(), b"GIF", b"\xff\xd8\xff", b"RIFF....WEBPVP8L"][kind as usize];
            bytes.splice(0..0, magic.iter().copied());
            let _ = image_size(&url(&bytes));
        }
    }
}
