//! Reads numbers out of a safetensors file, piece by piece: neither the file nor its largest tensor is ever in memory as a whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// The largest header that is read, in bytes.
const MAX_HEADER_BYTES: u64 = 16 << 20;
/// Numbers are read in pieces of about so many bytes.
const PIECE_BYTES: usize = 1 << 20;
/// What stands before the names in files that were saved with the heads of their model.
const PREFIXES: [&str; 4] = ["", "bert.", "roberta.", "model."];

/// An open file.
pub(super) struct Tensors {
    file: File,
    /// Where the numbers begin, and how many bytes follow.
    start: u64,
    size: u64,
    tensors: HashMap<String, Tensor>,
    prefix: &'static str,
    hash: blake3::Hasher,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// Where the numbers of a tensor stand.
struct Place {
    kind: String,
    /// Of a number, in bytes.
    width: usize,
    from: u64,
    bytes: usize,
}

impl Place {
    fn numbers(&self) -> usize {
        self.bytes / self.width
    }
}

impl Tensors {
    /// Opens a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let mut file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let broken = || "is no safetensors file, or broke off while it was copied: fetch it again".to_owned();
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(|_| broken())?;
        let size = u64::from_le_bytes(size);
        if size > MAX_HEADER_BYTES || size + 8 > length {
            return Err(broken());
        }
        let mut header = vec![0; usize::try_from(size).map_err(|_| broken())?];
        file.read_exact(&mut header).map_err(|_| broken())?;
        let header: HashMap<String, Value> = serde_json::from_slice(&header).map_err(|_| broken())?;
        let mut tensors = HashMap::new();
        for (name, value) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
            tensors.insert(name, serde_json::from_value(value).map_err(|_| broken())?);
        }
        let known = |prefix: &&str| tensors.contains_key(&format!("{prefix}embeddings.word_embeddings.weight"));
        let prefix = PREFIXES.into_iter().find(known).unwrap_or_default();
        Ok(Self { file, start: size + 8, size: length - size - 8, tensors, prefix, hash: blake3::Hasher::new() })
    }

    /// Whether there is a tensor of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(&format!("{}{name}", self.prefix))
    }

    /// The numbers of a tensor that must have this shape.
    pub(super) fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let found = &self.find(name)?.shape;
        if found != shape {
            return Err(format!("{name} is of the shape {found:?}, where config.json wants {shape:?}"));
        }
        // Before room is made for them.
        let numbers = self.place(name)?.numbers();
        let mut out = Vec::with_capacity(numbers);
        self.pieces(name, 1, |numbers| out.extend_from_slice(numbers))?;
        Ok(out)
    }

    /// Takes the rows of a tensor one after the other, of any number, but each of this width.
    pub(super) fn each_row(&mut self, name: &str, width: usize, mut take: impl FnMut(&[f32])) -> Result<(), String> {
        match self.find(name)?.shape[..] {
            [rows, found] if found == width && rows > 0 => {
                self.pieces(name, width, |numbers| numbers.chunks_exact(width).for_each(&mut take))
            }
            ref found => Err(format!("{name} is of the shape {found:?}, where config.json wants rows of {width}")),
        }
    }

    /// Makes bytes count for [`Self::hash`].
    pub(super) fn mark(&mut self, bytes: &[u8]) {
        self.hash.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }

    /// A name for everything that was read: hexadecimal, 16 characters.
    pub(super) fn hash(&self) -> String {
        self.hash.finalize().to_hex()[..16].to_owned()
    }

    fn find(&self, name: &str) -> Result<&Tensor, String> {
        let name = format!("{}{name}", self.prefix);
        self.tensors.get(&name).ok_or_else(|| format!("lacks {name}: is it the model that config.json tells of?"))
    }

    /// Where the numbers of a tensor stand, which the file is long enough for.
    fn place(&self, name: &str) -> Result<Place, String> {
        let Tensor { dtype, shape, data_offsets: (from, to) } = self.find(name)?;
        let width = match dtype.as_str() {
            "F32" => 4,
            "F16" | "BF16" => 2,
            other => return Err(format!("{name} has numbers of the kind {other}; supported are F32, F16 and BF16")),
        };
        let bytes = shape.iter().try_fold(width as u64, |bytes, side| bytes.checked_mul(*side as u64));
        if bytes.is_none_or(|bytes| from.checked_add(bytes) != Some(*to)) || *to > self.size {
            return Err(format!("{name} is not where the header says: the file broke off, fetch it again"));
        }
        let bytes = usize::try_from(to - from).map_err(|_| format!("{name} is too large"))?;
        Ok(Place { kind: dtype.clone(), width, from: *from, bytes })
    }

    /// Takes the numbers of a tensor in pieces of whole rows, so that a large one is never in memory as it stands in the file.
    fn pieces(&mut self, name: &str, row: usize, mut take: impl FnMut(&[f32])) -> Result<(), String> {
        let Place { kind, width, from, bytes: mut left } = self.place(name)?;
        let unreadable = |error: std::io::Error| format!("{name} cannot be read: {error}");
        self.file.seek(SeekFrom::Start(self.start + from)).map_err(unreadable)?;
        self.mark(&(left as u64).to_le_bytes());
        let mut buffer = vec![0; (PIECE_BYTES / (row * width)).max(1) * row * width];
        while left > 0 {
            let most = buffer.len();
            let piece = &mut buffer[..left.min(most)];
            self.file.read_exact(piece).map_err(unreadable)?;
            self.hash.update(piece);
            let numbers = decoded(&kind, piece);
            if numbers.iter().any(|number| !number.is_finite()) {
                return Err(format!("{name} has numbers that are none"));
            }
            take(&numbers);
            left -= piece.len();
        }
        Ok(())
    }
}

fn decoded(kind: &str, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks::<2>().0.iter().map(|half| u16::from_le_bytes(*half));
    match kind {
        "F16" => halves().map(from_half).collect(),
        "BF16" => halves().map(|half| f32::from_bits(u32::from(half) << 16)).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
    }
}

/// A number of IEEE 754's half precision.
fn from_half(half: u16) -> f32 {
    let (sign, exponent, fraction) =
        (u32::from(half >> 15) << 31, u32::from(half >> 10 & 0x1f), u32::from(half & 0x3ff));
    match exponent {
        // Zero and the numbers below the smallest exponent: so many times 2^-24.
        0 => f32::from_bits(sign) + f32::from_bits(sign | 1.0_f32.to_bits()) * fraction as f32 / 16_777_216.0,
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_read() {
        let cases = [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x3555, 0.333_251_95),
            (0x0001, 5.960_464_5e-8),
        ];
        for (half, wanted) in cases {
            assert_eq!(from_half(half), wanted);
        }
        assert!(from_half(0x7c00).is_infinite() && from_half(0x7e00).is_nan());
        assert_eq!(decoded("BF16", &[0x80, 0x3f]), [1.0]);
    }
}
