//! Texts that are embedded.

use super::Label;

label! {
    /// What became of the vector of an episode.
    VectorOutcome = "outcome" {
        /// It was made.
        Made = "made",
        /// There was one already.
        Kept = "kept",
        /// One that was damaged, or of another text, was found.
        Replaced = "replaced",
        /// The embedder would not take the text.
        Refused = "refused",
        /// The episode cannot be read.
        Unreadable = "unreadable",
        /// The embedder may not see something as private.
        Private = "private",
        /// The embedder or the store failed: a batch is tried again.
        Retried = "retried",
        /// It was of a model that is no longer used.
        Dropped = "dropped",
        /// Its episode went, and it with it, from an index outside of the process.
        Removed = "removed",
    }
}

label! {
    /// What became of the vector of a question.
    QuestionVector = "outcome" {
        /// It was made in time.
        Made = "made",
        /// It was not.
        Late = "late",
        /// The embedder failed.
        Failed = "failed",
        /// The embedder has been failing and was not asked.
        Skipped = "skipped",
    }
}

label! {
    /// What a text is embedded for.
    EmbedSide = "side" {
        /// A question.
        Query = "query",
        /// What is stored to be found.
        Document = "document",
    }
}

label! {
    /// What became of a text that was to be embedded.
    EmbedOutcome = "outcome" {
        /// It has a vector.
        Ok = "ok",
        /// It was embedded before.
        Cached = "cached",
        /// The embedder is busy, failing or too slow.
        Later = "later",
        /// The embedder refused it.
        Refused = "refused",
        /// What came was no vector.
        Unusable = "unusable",
        /// Nobody waited for it any longer: its deadline passed.
        Abandoned = "abandoned",
    }
}

label! {
    /// What became of a question to an index outside of the process.
    IndexOutcome = "outcome" {
        /// It answered in time.
        Ok = "ok",
        /// It did not.
        Late = "late",
        /// It failed.
        Failed = "failed",
        /// It has been failing and was not asked.
        Skipped = "skipped",
    }
}
