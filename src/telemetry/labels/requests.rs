//! Requests, their attempts and their prompts.

use super::Label;

label! {
    /// Which part of the API.
    Route = "route" {
        /// `/v1/chat/completions`.
        Chat = "chat",
        /// `/v1/messages` and what is below it.
        Messages = "messages",
        /// `/v1/responses`, and the counting of its tokens.
        Responses = "responses",
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
