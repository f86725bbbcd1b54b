//! What an image costs, by the model's rule and the image's size.
//!
//! Source of the figures: OpenAI's guide to images and vision, section on cost (as of 2025-08).

use serde::Deserialize;

/// The size of an image in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
}

/// How a model family turns an image into tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageRule {
    /// Tiles: 85 + 170 each (gpt-4o, gpt-4.1, gpt-4.5, gpt-4-turbo); also what an unknown model is taken for.
    #[default]
    Tiles,
    /// Tiles: 2833 + 5667 each (gpt-4o-mini).
    TilesMini,
    /// Tiles: 75 + 150 each (o1, o3).
    TilesReasoning,
    /// Tiles: 70 + 140 each (gpt-5).
    TilesFive,
    /// Patches of 32 pixels × 1.62 (gpt-4.1-mini, gpt-5-mini).
    PatchesMini,
    /// Patches of 32 pixels × 2.46 (gpt-4.1-nano, gpt-5-nano).
    PatchesNano,
    /// Patches of 32 pixels × 1.72 (o4-mini).
    PatchesReasoning,
}

/// An image never has more patches than this.
const MAX_PATCHES: u64 = 1536;
/// What is assumed of an image whose size is not in the request: one of the largest that a rule knows.
const UNKNOWN: Size = Size { width: 2048, height: 4096 };

impl ImageRule {
    /// Returns the tokens of an image. `size` is `None` for a remote URL or an unreadable header: then the largest that
    /// the rule allows is assumed. `detail` is `low`, `high` or `auto`; what is not `low` is counted as `high`.
    #[must_use]
    pub fn tokens(self, size: Option<Size>, detail: Option<&str>) -> usize {
        let size = size.unwrap_or(UNKNOWN);
        match self {
            Self::Tiles => tiles(85, 170, size, detail),
            Self::TilesMini => tiles(2833, 5667, size, detail),
            Self::TilesReasoning => tiles(75, 150, size, detail),
            Self::TilesFive => tiles(70, 140, size, detail),
            Self::PatchesMini => patches(162, size),
            Self::PatchesNano => patches(246, size),
            Self::PatchesReasoning => patches(172, size),
        }
    }
}

/// Scaled into a square of 2048, then to a shortest side of 768, then cut in squares of 512. Never scaled up.
fn tiles(base: usize, each: usize, size: Size, detail: Option<&str>) -> usize {
    if detail == Some("low") {
        return base;
    }
    let (mut width, mut height) = (f64::from(size.width.max(1)), f64::from(size.height.max(1)));
    let mut fit = |side: f64, limit: f64| {
        if side > limit {
            (width, height) = (width * limit / side, height * limit / side);
        }
        width.min(height)
    };
    let shortest = fit(f64::from(size.width.max(size.height)), 2048.0);
    fit(shortest, 768.0);
    // Half a pixel of tolerance: 2048 × (768 / 2048) must be 768, not a hair more.
    let count = |side: f64| ((side - 0.5) / 512.0).ceil().max(1.0) as usize;
    base + each * count(width) * count(height)
}

/// Squares of 32 pixels that cover the image, at most 1536, times the model's factor in hundredths.
fn patches(hundredths: u64, size: Size) -> usize {
    let across = u64::from(size.width.max(1)).div_ceil(32);
    let down = u64::from(size.height.max(1)).div_ceil(32);
    let patches = across.saturating_mul(down).min(MAX_PATCHES);
    (patches * hundredths).div_ceil(100) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32) -> Option<Size> {
        Some(Size { width, height })
    }

    /// Guards against BerriAI/litellm#39910.
    #[test]
    fn images_count_by_size_and_detail() {
        let rule = ImageRule::Tiles;
        assert_eq!(rule.tokens(size(1024, 1024), Some("high")), 765);
        assert_eq!(rule.tokens(size(2048, 4096), Some("high")), 1105);
        assert_eq!(rule.tokens(size(4096, 8192), Some("low")), 85);
        assert_eq!(rule.tokens(size(512, 512), Some("auto")), 255);
        assert_eq!(rule.tokens(size(1, 1), None), 255);
        assert_eq!(rule.tokens(size(0, 0), None), 255);
        assert_eq!(ImageRule::TilesMini.tokens(size(1024, 1024), None), 2833 + 4 * 5667);
    }

    #[test]
    fn patch_models_count_squares_of_32_pixels() {
        assert_eq!(ImageRule::PatchesMini.tokens(size(1024, 1024), None), 1659);
        assert_eq!(ImageRule::PatchesReasoning.tokens(size(u32::MAX, u32::MAX), None), 2642);
    }

    #[test]
    fn an_unknown_size_is_taken_for_a_large_one() {
        for rule in [ImageRule::Tiles, ImageRule::TilesFive, ImageRule::PatchesMini] {
            assert!(rule.tokens(None, None) >= rule.tokens(size(1024, 1024), None));
        }
    }
}
