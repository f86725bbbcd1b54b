//! Where the vectors of one generation lie, measured by texts of our own.

use std::fmt;
use std::sync::Arc;

use super::background::{self, LANGUAGES};
use crate::embed::Packed;

/// Of the questions nearest to one, so many say what kind it is.
const NEAREST: usize = 5;
/// Of unrelated texts, the spread of cosines is no smaller than this, whatever was measured.
const LEAST_SPREAD: f32 = 0.01;

/// What vectors of a generation are measured by. Two generations have nothing in common.
pub struct Space {
    generation: Arc<str>,
    dimension: usize,
    /// The means of what is stored and of questions, by language.
    said: [Vec<f32>; LANGUAGES],
    asked: [Vec<f32>; LANGUAGES],
    /// Questions about the world, and about one's own past; their means taken out.
    world: Vec<Vec<f32>>,
    own: Vec<Vec<f32>>,
    /// The spread of the cosines of texts that have nothing to do with each other.
    spread: f32,
    /// The spread of [`Space::leaning`] over the questions that are known.
    leaning_spread: f32,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space")
            .field("generation", &self.generation)
            .field("dimension", &self.dimension)
            .field("spread", &self.spread)
            .finish_non_exhaustive()
    }
}

/// Why a background cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// There are not as many vectors as texts, or not all of one dimension.
    #[error("the vectors of the background are not one for each text, all of one dimension")]
    Count,
    /// They do not tell texts apart.
    #[error("the vectors of the background are all alike, or hold what is no number")]
    Degenerate,
    /// They were written down for other texts, or are damaged.
    #[error("the background was made of other texts, or is damaged")]
    Outdated,
}

/// The texts that a generation is measured by.
#[derive(Clone, Debug)]
pub struct Texts {
    /// To be embedded as what is stored.
    pub documents: Vec<&'static str>,
    /// To be embedded as questions.
    pub questions: Vec<&'static str>,
}

impl Space {
    /// The texts whose vectors it is measured by.
    #[must_use]
    pub fn texts() -> Texts {
        let flat = |texts: [&[&'static str]; LANGUAGES]| texts.concat();
        Texts {
            documents: flat(background::SAID),
            questions: [flat(background::WORLD), flat(background::OWN)].concat(),
        }
    }

    /// Names [`Space::texts`]: other texts, of another version, have another name.
    #[must_use]
    pub fn measured_by() -> String {
        background::hash().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Writes down the vectors of [`Space::texts`], in their order.
    ///
    /// # Errors
    /// [`SpaceError::Count`], [`SpaceError::Degenerate`].
    pub fn write(documents: &[Vec<f32>], questions: &[Vec<f32>]) -> Result<Vec<u8>, SpaceError> {
        let dimension = documents.first().map_or(0, Vec::len);
        let mut bytes = background::hash().to_vec();
        bytes.extend(u32::try_from(dimension).map_err(|_| SpaceError::Count)?.to_le_bytes());
        for vector in documents.iter().chain(questions) {
            if vector.len() != dimension {
                return Err(SpaceError::Count);
            }
            let packed = Packed::of(vector).ok_or(SpaceError::Degenerate)?;
            bytes.extend(packed.scale.to_le_bytes());
            bytes.extend(packed.values.iter().map(|x| x.to_le_bytes()[0]));
        }
        Ok(bytes)
    }

    /// Measures a generation by what [`Space::write`] wrote.
    ///
    /// # Errors
    /// See [`SpaceError`].
    pub fn read(generation: &str, bytes: &[u8]) -> Result<Self, SpaceError> {
        let rest = bytes.strip_prefix(&background::hash()).ok_or(SpaceError::Outdated)?;
        let (dimension, rest) = rest.split_first_chunk::<4>().ok_or(SpaceError::Outdated)?;
        let dimension = u32::from_le_bytes(*dimension) as usize;
        let texts = Self::texts();
        let n = texts.documents.len() + texts.questions.len();
        if dimension == 0 || rest.len() != n * (dimension + 4) {
            return Err(SpaceError::Outdated);
        }
        let vectors = rest.chunks(dimension + 4).map(|row| {
            let (scale, values) = row.split_first_chunk::<4>().expect("a row is longer than its scale");
            let scale = f32::from_le_bytes(*scale);
            values.iter().map(|&byte| f32::from(i8::from_le_bytes([byte])) * scale).collect()
        });
        let mut documents: Vec<Vec<f32>> = vectors.collect();
        let questions = documents.split_off(texts.documents.len());
        Self::measure(generation, &documents, &questions)
    }

    /// Measures a generation by the vectors of [`Space::texts`].
    ///
    /// # Errors
    /// See [`SpaceError`].
    fn measure(generation: &str, documents: &[Vec<f32>], questions: &[Vec<f32>]) -> Result<Self, SpaceError> {
        let dimension = documents.first().map_or(0, Vec::len);
        let n_world: usize = background::WORLD.iter().map(|texts| texts.len()).sum();
        let (world, own) = questions.split_at_checked(n_world).ok_or(SpaceError::Count)?;
        let (said, world, own) = (
            by_language(documents, background::SAID)?,
            by_language(world, background::WORLD)?,
            by_language(own, background::OWN)?,
        );
        let mut space = Self {
            generation: generation.into(),
            dimension,
            said: said.each_ref().map(|vectors| mean(vectors.iter())),
            asked: std::array::from_fn(|at| mean(world[at].iter().chain(&own[at]))),
            world: Vec::new(),
            own: Vec::new(),
            spread: LEAST_SPREAD,
            leaning_spread: 1.0,
        };
        let centre = |vectors: [Vec<Vec<f32>>; LANGUAGES], means: &[Vec<f32>; LANGUAGES]| {
            vectors.concat().into_iter().map(|vector| without(&vector, means)).collect::<Option<Vec<_>>>()
        };
        let said = centre(said, &space.said).ok_or(SpaceError::Degenerate)?;
        space.world = centre(world, &space.asked).ok_or(SpaceError::Degenerate)?;
        space.own = centre(own, &space.asked).ok_or(SpaceError::Degenerate)?;
        let unrelated = || space.world.iter().chain(&space.own).flat_map(|q| said.iter().map(|d| dot(q, d)));
        space.spread = spread(unrelated()).max(LEAST_SPREAD);
        let leanings = || {
            let world = (0..space.world.len()).map(|at| space.lean(&space.world[at], Some(at), None));
            world.chain((0..space.own.len()).map(|at| space.lean(&space.own[at], None, Some(at))))
        };
        space.leaning_spread = spread(leanings());
        let usable = space.spread.is_finite() && space.leaning_spread.is_finite() && space.leaning_spread > 0.0;
        usable.then_some(space).ok_or(SpaceError::Degenerate)
    }

    /// The generation that it measures.
    #[must_use]
    pub fn generation(&self) -> &Arc<str> {
        &self.generation
    }

    /// How many numbers a vector has.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The spread of the cosines of texts that have nothing to do with each other.
    pub(super) fn spread(&self) -> f32 {
        self.spread
    }

    /// A stored vector, without what all texts of its language have in common. `None` when it is of another dimension.
    pub(super) fn place(&self, stored: &Packed) -> Option<Packed> {
        (stored.values.len() == self.dimension).then(|| Packed::of(&without(&stored.unpack(), &self.said)?)).flatten()
    }

    /// The same, for an index elsewhere: its cosines are those that vectors in memory have.
    #[must_use]
    pub fn placed(&self, stored: &Packed) -> Option<Vec<f32>> {
        self.place(stored).map(|placed| placed.unpack())
    }

    /// A question's vector, likewise.
    pub(super) fn place_question(&self, vector: &[f32]) -> Option<Vec<f32>> {
        let packed = (vector.len() == self.dimension).then(|| Packed::of(vector)).flatten()?;
        without(&packed.unpack(), &self.asked)
    }

    /// Whether a question, placed, is more like those about one's own past (above zero) or like those about the world (below); most are within 2.
    pub(super) fn leaning(&self, question: &[f32]) -> f32 {
        self.lean(question, None, None) / self.leaning_spread
    }

    /// The same before it is scaled, and without one of the questions that it is measured by.
    fn lean(&self, question: &[f32], but_world: Option<usize>, but_own: Option<usize>) -> f32 {
        nearest(question, &self.own, but_own) - nearest(question, &self.world, but_world)
    }
}

/// The mean cosine of the nearest few.
fn nearest(question: &[f32], known: &[Vec<f32>], but: Option<usize>) -> f32 {
    let mut best = [f32::NEG_INFINITY; NEAREST];
    for (_, vector) in known.iter().enumerate().filter(|(at, _)| Some(*at) != but) {
        let cosine = dot(question, vector);
        let place = best.partition_point(|&known| known >= cosine);
        if place < NEAREST {
            best[place..].rotate_right(1);
            best[place] = cosine;
        }
    }
    best.iter().sum::<f32>() / NEAREST as f32
}

fn by_language(vectors: &[Vec<f32>], texts: [&[&str]; LANGUAGES]) -> Result<[Vec<Vec<f32>>; LANGUAGES], SpaceError> {
    let mut rest = vectors;
    let mut out = [const { Vec::new() }; LANGUAGES];
    for (out, texts) in out.iter_mut().zip(texts) {
        let (these, others) = rest.split_at_checked(texts.len()).ok_or(SpaceError::Count)?;
        *out = these.to_vec();
        rest = others;
    }
    let dimension = vectors.first().map_or(0, Vec::len);
    let fits = rest.is_empty() && dimension > 0 && vectors.iter().all(|vector| vector.len() == dimension);
    fits.then_some(out).ok_or(SpaceError::Count)
}

fn mean<'a>(vectors: impl Iterator<Item = &'a Vec<f32>>) -> Vec<f32> {
    let mut sum: Vec<f32> = Vec::new();
    let mut n = 0.0;
    for vector in vectors {
        sum.resize(vector.len(), 0.0);
        sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
        n += 1.0;
    }
    sum.iter_mut().for_each(|sum| *sum /= n);
    sum
}

/// A vector of unit length without the mean that is nearest to it; `None` when nothing is left.
fn without(vector: &[f32], means: &[Vec<f32>; LANGUAGES]) -> Option<Vec<f32>> {
    let nearest = means.iter().max_by(|a, b| dot(vector, a).total_cmp(&dot(vector, b)))?;
    let mut left: Vec<f32> = vector.iter().zip(nearest).map(|(x, mean)| x - mean).collect();
    let length = dot(&left, &left).sqrt();
    left.iter_mut().for_each(|x| *x /= length);
    (length.is_finite() && length > 1e-6).then_some(left)
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn spread(values: impl Iterator<Item = f32> + Clone) -> f32 {
    let n = values.clone().count().max(1) as f32;
    let mean = values.clone().sum::<f32>() / n;
    (values.map(|value| (value - mean).powi(2)).sum::<f32>() / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{embed, space};
    use super::*;

    #[test]
    fn what_was_written_is_read_and_anything_else_is_refused() {
        let texts = Space::texts();
        let vectors = |texts: &[&str]| texts.iter().map(|text| embed(text)).collect::<Vec<_>>();
        let (documents, questions) = (vectors(&texts.documents), vectors(&texts.questions));
        let bytes = Space::write(&documents, &questions).unwrap();
        let read = Space::read("g", &bytes).unwrap();
        assert_eq!((read.generation().as_ref(), read.dimension()), ("g", documents[0].len()));
        assert!(read.spread() > LEAST_SPREAD && read.spread() < 0.5, "{read:?}");
        assert_eq!(Space::read("g", &bytes[..bytes.len() - 1]).unwrap_err(), SpaceError::Outdated);
        assert_eq!(Space::read("g", &[]).unwrap_err(), SpaceError::Outdated);
        let mut other = bytes.clone();
        other[0] ^= 1;
        assert_eq!(Space::read("g", &other).unwrap_err(), SpaceError::Outdated);
        assert_eq!(Space::write(&documents, &[vec![1.0]]).unwrap_err(), SpaceError::Count);
        assert_eq!(Space::write(&[vec![f32::NAN; 3]], &[]).unwrap_err(), SpaceError::Degenerate);
        let alike = |n: usize| vec![vec![1.0, 0.0]; n];
        let bytes = Space::write(&alike(documents.len()), &alike(questions.len())).unwrap();
        assert_eq!(Space::read("g", &bytes).unwrap_err(), SpaceError::Degenerate);
    }

    #[test]
    fn a_vector_of_another_dimension_has_no_place() {
        let space = space();
        assert!(space.place(&Packed::of(&[1.0, 2.0]).unwrap()).is_none());
        assert!(space.place_question(&[1.0, 2.0]).is_none());
        assert!(space.place_question(&vec![f32::NAN; space.dimension()]).is_none());
        assert!(space.place_question(&embed("what did my sister say")).is_some());
    }

    #[test]
    fn a_question_leans_to_what_it_is_like() {
        let space = space();
        let leaning = |text: &str| space.leaning(&space.place_question(&embed(text)).unwrap());
        assert!(leaning("What is the name of my doctor?") > 0.0);
        assert!(leaning("Write a function that sorts a list of words.") < 0.0);
    }
}
