//! What is recalled, learned and swept.

use super::Label;

label! {
    /// How a recall ended.
    RecallOutcome = "outcome" {
        /// Something was shown.
        Hit = "hit",
        /// Nothing is known.
        Miss = "miss",
        /// It was not asked: no subject, or switched off.
        Skipped = "skipped",
        /// The deadline passed.
        Timeout = "timeout",
        /// It failed; the request went on without memory.
        Error = "error",
        /// What the turn was shown before was shown again.
        Pinned = "pinned",
    }
}

label! {
    /// What a rerank endpoint did with what it was asked.
    RerankOutcome = "outcome" {
        /// It gave an order.
        Ok = "ok",
        /// It did not answer in time.
        Late = "late",
        /// It could not be reached, or was busy.
        Unavailable = "unavailable",
        /// It does not take our question.
        Refused = "refused",
        /// Its answer was no order.
        Unusable = "unusable",
    }
}

label! {
    /// What became of a proposal, or of an episode.
    ExtractOutcome = "outcome" {
        /// It changed a fact, or was stored.
        Accepted = "accepted",
        /// It was refused.
        Refused = "refused",
        /// It is held back for a person.
        Quarantined = "quarantined",
    }
}

label! {
    /// Why: the reasons of the gate, by its own names, and arbitration as a whole.
    ExtractReason = "reason" {
        /// Decided among the facts of its key.
        Arbitration = "arbitration",
        /// Its evidence is not in the newest user turn.
        NoEvidence = "no_evidence",
        /// Someone else said it.
        NotTheUser = "not_the_user",
        /// Its evidence is quoted, fenced, or context.
        NotOwnWords = "not_own_words",
        /// It repeats an earlier message.
        Repeated = "repeated",
        /// It was shown by us.
        Shown = "shown",
        /// It is not meant to last.
        Fleeting = "fleeting",
        /// It supposes, asks, denies or remembers, and states nothing.
        NotStated = "not_stated",
        /// It is small talk.
        SmallTalk = "small_talk",
        /// It was erased or deleted before.
        Tombstoned = "tombstoned",
        /// The app says it to several subjects.
        Boilerplate = "boilerplate",
        /// It gives orders to the assistant.
        Orders = "orders",
        /// It holds a secret.
        Secret = "secret",
        /// It has no value that its key can hold.
        NoValue = "no_value",
        /// Its key takes only a closed set, and it is not in it.
        NotInClosedSet = "not_in_closed_set",
    }
}

impl ExtractReason {
    /// The reason of this name; what is no name of the gate is a sentence of arbitration.
    #[must_use]
    pub fn named(text: &str) -> Self {
        Self::ALL.iter().copied().find(|reason| reason.text() == text).unwrap_or(Self::Arbitration)
    }
}

label! {
    /// What happened to a fact.
    FactAction = "action" {
        /// A new fact.
        Insert = "insert",
        /// The same value, said again.
        Reinforce = "reinforce",
        /// Another took its place.
        Supersede = "supersede",
        /// It waits for a person.
        Contest = "contest",
        /// Taken back, or forgotten on request.
        Retire = "retire",
        /// Changed, confirmed, locked or restored through the API.
        Edit = "edit",
        /// Held back.
        Quarantine = "quarantine",
        /// Ran out.
        Expire = "expire",
    }
}

label! {
    /// What became of an exchange that was to be learned from.
    LearnedAs = "outcome" {
        /// Stored.
        Applied = "applied",
        /// Its user turn had been learned before.
        Seen = "seen",
        /// Decided too late, and decided again.
        Stale = "stale",
        /// Its scope was erased.
        Erased = "erased",
        /// Another worker had taken it over.
        NotOurs = "not_ours",
        /// It failed and is tried again.
        Retried = "retried",
        /// It was given up.
        Dead = "dead",
    }
}

label! {
    /// What the sweep did.
    Swept = "what" {
        /// A fact ran out.
        Expired = "fact_expired",
        /// A fact went, with its history.
        DroppedFact = "fact_dropped",
        /// An episode was put aside.
        Archived = "episode_archived",
        /// An episode went.
        DroppedEpisode = "episode_dropped",
        /// A row that had run out went: a conversation state, an exchange record, a dead letter.
        Row = "row_dropped",
        /// A part of a table whose rows had run out went as a whole, in PostgreSQL; they are among the rows.
        Part = "part_dropped",
    }
}
