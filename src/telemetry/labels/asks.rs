//! Questions of our own to models.

use super::Label;

label! {
    /// What became of a summary that was wished for.
    SummaryOutcome = "outcome" {
        /// It was made, and is kept.
        Made = "made",
        /// It was there already.
        Found = "found",
        /// The model said nothing.
        Empty = "empty",
        /// Nothing that the model said may stand: inventions, orders, another script.
        Unfit = "unfit",
        /// The model could not be asked, or did not answer.
        Failed = "failed",
        /// It could not be kept.
        Store = "store",
        /// The queue was full.
        Full = "full",
        /// The day's tokens are used up.
        Capped = "capped",
        /// Its subject was erased meanwhile.
        Erased = "erased",
    }
}

label! {
    /// What a question of our own to a model is for.
    AskPurpose = "purpose" {
        /// What to learn from exchanges.
        Extract = "extract",
        /// A summary of what was cut.
        Summary = "summary",
    }
}

label! {
    /// How a question of our own to a model ended.
    AskOutcome = "outcome" {
        /// With an answer.
        Ok = "ok",
        /// With an answer that its limit of tokens cut short.
        Unfinished = "unfinished",
        /// The format of the answer was refused.
        Format = "format",
        /// Busy, failing or too slow.
        Later = "later",
        /// Refused for good.
        Refused = "refused",
    }
}

label! {
    /// How a window of exchanges that a model was asked about ended.
    WindowEnd = "outcome" {
        /// What was accepted is stored.
        Learned = "learned",
        /// It is asked about again.
        Retried = "retried",
        /// It was given up.
        Dead = "dead",
        /// Its scope was erased, or another worker had taken it over.
        Lost = "lost",
    }
}

label! {
    /// Whether an item of a model's answer could be read.
    ItemOutcome = "outcome" {
        /// It could.
        Good = "good",
        /// It could not, and was left out.
        Bad = "bad",
    }
}

label! {
    /// Which tokens of a question of our own.
    AskTokens = "direction" {
        /// Of the question.
        Input = "input",
        /// Of the answer.
        Output = "output",
    }
}
