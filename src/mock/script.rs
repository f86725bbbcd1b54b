//! What a test wants the mock to answer.

use std::fmt;
use std::sync::Arc;

use super::record::Recorded;
use super::reply::Raw;

/// What to answer.
#[derive(Clone, Default)]
pub enum Script {
    /// As the name of the model says.
    #[default]
    Model,
    /// As if this model had been asked for; the reply still names the one that was.
    As(&'static str),
    /// Chat replies with this text; other paths as [`Script::Model`].
    Fixed(String),
    /// This reply, to the byte, whatever the path.
    Raw(Raw),
    /// One after the other, a request each; the last one stays.
    Sequence(Vec<Self>),
    /// What the function says for this request.
    Fn(Arc<dyn Fn(&Recorded) -> Self + Send + Sync>),
}

impl Script {
    /// Makes a [`Script::Fn`].
    pub fn from_fn(answer: impl Fn(&Recorded) -> Self + Send + Sync + 'static) -> Self {
        Self::Fn(Arc::new(answer))
    }

    /// Returns the step for the next request, and moves on.
    pub(super) fn step(&mut self) -> Self {
        match self {
            Self::Sequence(steps) => {
                let Some(first) = steps.first_mut() else {
                    return Self::Model;
                };
                let nested = matches!(first, Self::Sequence(inner) if inner.len() > 1);
                let step = first.step();
                if !nested && steps.len() > 1 {
                    steps.remove(0);
                }
                step
            }
            other => other.clone(),
        }
    }

    /// Calls functions until something else comes out; a function that goes on and on ends as [`Script::Model`].
    pub(super) fn resolve(mut self, request: &Recorded) -> Self {
        for _ in 0..8 {
            self = match self {
                Self::Fn(answer) => answer(request),
                Self::Sequence(mut steps) => {
                    if steps.is_empty() {
                        Self::Model
                    } else {
                        steps.swap_remove(0)
                    }
                }
                other => return other,
            };
        }
        Self::Model
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model => f.write_str("Model"),
            Self::As(model) => write!(f, "As({model})"),
            Self::Fixed(_) => f.write_str("Fixed(..)"),
            Self::Raw(raw) => write!(f, "Raw({})", raw.status),
            Self::Sequence(steps) => write!(f, "Sequence({})", steps.len()),
            Self::Fn(_) => f.write_str("Fn(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(script: &mut Script, n: usize) -> Vec<String> {
        (0..n).map(|_| format!("{:?}", script.step())).collect()
    }

    #[test]
    fn a_sequence_goes_on_and_its_last_step_stays() {
        let mut script = Script::Sequence(vec![
            Script::As("a"),
            Script::Sequence(vec![Script::As("b"), Script::As("c")]),
            Script::As("d"),
        ]);
        assert_eq!(names(&mut script, 5), ["As(a)", "As(b)", "As(c)", "As(d)", "As(d)"]);
        assert_eq!(names(&mut Script::Sequence(Vec::new()), 1), ["Model"]);
    }
}
