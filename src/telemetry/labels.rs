//! The closed sets of label values, by what they tell of.

/// A label whose values are known at compile time.
pub trait Label: Copy + 'static {
    /// The name of the label.
    const NAME: &'static str;
    /// All values, in the order of [`Label::index`].
    const ALL: &'static [Self];

    /// Place of the value in [`Label::ALL`].
    fn index(self) -> usize;

    /// The value as it is written.
    fn text(self) -> &'static str;
}

macro_rules! label {
    ($(#[$doc:meta])* $type:ident = $label:literal { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$value_doc])* $value,)+
        }

        impl Label for $type {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$value,)+];

            fn index(self) -> usize {
                self as usize
            }

            fn text(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

// After the macro, which they use.
mod asks;
mod edges;
mod export;
mod limits;
mod memory;
mod requests;
mod shared;
mod vectors;

pub use asks::{AskOutcome, AskPurpose, AskTokens, ItemOutcome, SummaryOutcome, WindowEnd};
pub use edges::{HandshakeFailure, Listener, ReloadOutcome};
pub use export::{ExportOutcome, Signal, SpanOutcome};
pub use limits::{Limit, LimitOf};
pub use memory::{ExtractOutcome, ExtractReason, FactAction, LearnedAs, RecallOutcome, RerankOutcome, Swept};
pub use requests::{AttemptOutcome, Direction, Outcome, OverflowOutcome, PromptPart, PromptTurn, Route};
pub use shared::{RedisCommand, RedisOutcome};
pub use vectors::{EmbedOutcome, EmbedSide, IndexOutcome, QuestionVector, VectorOutcome};

#[cfg(test)]
mod tests {
    use super::*;

    fn check<L: Label + PartialEq + std::fmt::Debug>() {
        for (index, value) in L::ALL.iter().enumerate() {
            assert_eq!(value.index(), index, "{value:?}");
        }
        let texts: std::collections::HashSet<_> = L::ALL.iter().map(|value| value.text()).collect();
        assert_eq!(texts.len(), L::ALL.len());
    }

    #[test]
    fn every_label_value_has_its_own_place_and_text() {
        check::<Route>();
        check::<Outcome>();
        check::<RecallOutcome>();
        check::<RerankOutcome>();
        check::<ExtractOutcome>();
        check::<ExtractReason>();
        check::<FactAction>();
        check::<LearnedAs>();
        check::<Swept>();
        check::<Direction>();
        check::<PromptTurn>();
        check::<PromptPart>();
        check::<AttemptOutcome>();
        check::<AskPurpose>();
        check::<AskOutcome>();
        check::<AskTokens>();
        check::<WindowEnd>();
        check::<ItemOutcome>();
        check::<SummaryOutcome>();
        check::<OverflowOutcome>();
        check::<Limit>();
        check::<LimitOf>();
        check::<EmbedSide>();
        check::<EmbedOutcome>();
        check::<VectorOutcome>();
        check::<QuestionVector>();
        check::<IndexOutcome>();
        check::<Signal>();
        check::<ExportOutcome>();
        check::<SpanOutcome>();
        check::<ReloadOutcome>();
        check::<Listener>();
        check::<HandshakeFailure>();
        check::<RedisCommand>();
        check::<RedisOutcome>();
    }

    #[test]
    fn a_reason_is_found_by_its_name() {
        assert_eq!(ExtractReason::named("small_talk"), ExtractReason::SmallTalk);
        assert_eq!(ExtractReason::named("a stronger source says otherwise"), ExtractReason::Arbitration);
    }

    #[test]
    fn a_status_has_its_class() {
        assert_eq!(Outcome::of_status(200), Outcome::Ok);
        assert_eq!(Outcome::of_status(404), Outcome::ClientError);
        assert_eq!(Outcome::of_status(504), Outcome::ServerError);
    }
}
