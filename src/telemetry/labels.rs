//! The closed sets of label values.

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

label! {
    /// Which part of the API.
    Route = "route" {
        /// `/v1/chat/completions`.
        Chat = "chat",
        /// `/v1/embeddings`.
        Embeddings = "embeddings",
        /// `/v1/models`.
        Models = "models",
        /// Any other `/v1/*`.
        Passthrough = "passthrough",
        /// `/memory/v1/explain`.
        Explain = "explain",
        /// `/memory/v1/recall`.
        Recall = "recall",
        /// The rest of `/memory/v1`.
        Memory = "memory",
        /// `/admin/v1`.
        Admin = "admin",
        /// Anything else.
        Other = "other",
    }
}

label! {
    /// How a request ended.
    Outcome = "outcome" {
        /// 2xx, complete.
        Ok = "2xx",
        /// 3xx.
        Redirect = "3xx",
        /// 4xx.
        ClientError = "4xx",
        /// 5xx.
        ServerError = "5xx",
        /// The client left before the end.
        ClientGone = "client_gone",
        /// A stream that broke after it had begun.
        Cut = "cut",
    }
}

impl Outcome {
    /// The outcome of a reply that ended as it should.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            0..300 => Self::Ok,
            300..400 => Self::Redirect,
            400..500 => Self::ClientError,
            _ => Self::ServerError,
        }
    }
}

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
    }
}

label! {
    /// What tokens were for.
    Direction = "direction" {
        /// Of the prompt.
        Input = "input",
        /// Of the reply.
        Output = "output",
        /// Of the prompt, taken from upstream's cache.
        Cached = "cached",
        /// Of the reply, for reasoning.
        Reasoning = "reasoning",
        /// Of the prompt, put in by us.
        Memory = "memory",
    }
}

label! {
    /// What kind of request a prompt is of, for how much of it the request before had.
    PromptTurn = "turn" {
        /// A new user turn.
        Chat = "chat",
        /// The same user turn, going on.
        ToolLoop = "tool_loop",
        /// The first one after a cut.
        Cut = "cut",
    }
}

label! {
    /// A part of a prompt.
    PromptPart = "part" {
        /// What it has in common with the last request of its conversation, from the beginning on.
        Prefix = "prefix",
        /// All behind that.
        New = "new",
    }
}

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
    /// How an attempt ended.
    AttemptOutcome = "outcome" {
        /// 2xx to its end.
        Ok = "ok",
        /// 4xx other than 429.
        ClientError = "4xx",
        /// 429.
        Limited = "429",
        /// 5xx.
        ServerError = "5xx",
        /// No connection.
        Connect = "connect",
        /// One of the timeouts.
        Timeout = "timeout",
        /// The body broke off.
        Cut = "cut",
        /// An error inside a 200.
        ErrorEvent = "error_event",
        /// The client left.
        Cancelled = "cancelled",
        /// An answer that is none: a redirect, a page of HTML.
        Invalid = "invalid",
    }
}

label! {
    /// What became of a request that upstream found larger than its window.
    OverflowOutcome = "outcome" {
        /// A target with a larger window was asked.
        NextTarget = "next_target",
        /// It was cut to the window that upstream told, and sent again.
        Refitted = "refitted",
        /// The client got upstream's error.
        Passed = "passed",
    }
}

impl AttemptOutcome {
    /// The outcome of an answer with a status.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            429 => Self::Limited,
            400..500 => Self::ClientError,
            500.. => Self::ServerError,
            _ => Self::Ok,
        }
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

label! {
    /// What is limited; named as in the configuration.
    Limit = "limit" {
        /// Requests at a time, each until its reply ends.
        MaxConcurrency = "max_concurrency",
        /// Requests a minute.
        RequestsPerMinute = "requests_per_minute",
        /// Tokens a minute.
        TokensPerMinute = "tokens_per_minute",
        /// Tokens a day.
        TokensPerDay = "tokens_per_day",
        /// Tokens a month.
        TokensPerMonth = "tokens_per_month",
        /// US dollars a day.
        UsdPerDay = "usd_per_day",
        /// US dollars a month.
        UsdPerMonth = "usd_per_month",
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
    /// Whose limit it is.
    LimitOf = "of" {
        /// A key's.
        Key = "key",
        /// A person's.
        Subject = "subject",
        /// A tenant's.
        Tenant = "tenant",
        /// A model's, whoever asks for it.
        Model = "model",
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
