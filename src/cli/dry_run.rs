//! `backstory explain --dry-run`: replays a conversation against a policy and prints what would become of it, request by request.

use bytes::Bytes;
use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::{policies, policy_changes};
use crate::base::Secret;
use crate::config::{Config, Key};
use crate::context::{
    Common, Overflow, Policy, PolicyChanges, Profile, Rehearsal, Share, Step, Target, Totals, requests,
};
use crate::tokens::ModelTable;
use crate::wire::{ChatRequest, DecodeError, encode_string};

/// What a conversation is replayed against, beside the config.
#[derive(Debug, Args)]
pub(super) struct DryRunArgs {
    /// Replay a conversation, request by request, against the policy: prints cuts, tokens saved and how much of each prompt stays the
    /// same. FILE is a chat request, or one JSON object a line: messages, or whole requests. Nothing is sent to anybody
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: the budget, in place of the configured one; 0 = what the window leaves
    #[arg(long, value_name = "TOKENS", requires = "dry_run")]
    max_input_tokens: Option<usize>,
    /// With --dry-run: tokens of memory at most
    #[arg(long, value_name = "TOKENS", requires = "dry_run")]
    memory_tokens: Option<usize>,
    /// With --dry-run: the share of the budget that a cut goes down to
    #[arg(long, value_name = "SHARE", requires = "dry_run", value_parser = low_water)]
    low_water: Option<f64>,
    /// With --dry-run: trim, reject or shorten
    #[arg(long, value_name = "RULE", requires = "dry_run", value_parser = overflow)]
    overflow: Option<Overflow>,
    /// With --dry-run: single, chat or task
    #[arg(long, value_name = "PROFILE", requires = "dry_run", value_parser = profile)]
    profile: Option<Profile>,
    /// With --dry-run: turns longer than this keep their recollection in place; 0 = none does
    #[arg(long, value_name = "TOKENS", requires = "dry_run")]
    sticky_tokens: Option<usize>,
    /// With --dry-run: assume that a recollection of so many tokens is shown with each user turn
    #[arg(long, value_name = "TOKENS", requires = "dry_run", default_value_t = 0)]
    recollection_tokens: usize,
    /// With --dry-run: the model that is asked for, in place of the conversation's own
    #[arg(long, value_name = "MODEL", requires = "dry_run")]
    model: Option<String>,
    /// With --dry-run: the upstream model that answers, in place of the one configured for the name
    #[arg(long, value_name = "MODEL", requires = "dry_run")]
    target: Option<String>,
    /// With --dry-run: the target's window, where it is not known or is to be another
    #[arg(long, value_name = "TOKENS", requires = "dry_run")]
    window: Option<usize>,
}

fn low_water(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.1..=1.0).contains(share)).ok_or_else(|| "must be from 0.1 to 1".to_owned())
}

fn overflow(text: &str) -> Result<Overflow, String> {
    match text {
        "trim" => Ok(Overflow::Trim),
        "reject" => Ok(Overflow::Reject),
        "shorten" => Ok(Overflow::Shorten),
        _ => Err("must be trim, reject or shorten".to_owned()),
    }
}

fn profile(text: &str) -> Result<Profile, String> {
    match text {
        "single" => Ok(Profile::Single),
        "chat" => Ok(Profile::Chat),
        "task" => Ok(Profile::Task),
        _ => Err("must be single, chat or task".to_owned()),
    }
}

impl DryRunArgs {
    pub(super) fn is_wanted(&self) -> bool {
        self.dry_run
    }

    /// Replays the conversation in `input`, and returns what is to be printed.
    pub(super) fn run(
        &self,
        config: &Config,
        key: Option<&Secret>,
        input: &[u8],
        as_json: bool,
    ) -> Result<String, String> {
        let bodies = conversation(input, self.model.as_deref())?;
        let mut plan: Option<(Rehearsal, String)> = None;
        let mut steps = Vec::new();
        for body in bodies {
            let request = ChatRequest::decode(body).map_err(|error| error.to_string())?;
            let (rehearsal, _) = plan.get_or_insert_with(|| self.begin(config, key, request.model()));
            steps.push(rehearsal.step(&request));
        }
        let (rehearsal, head) = plan.ok_or("there is no message in it")?;
        let totals = rehearsal.totals();
        Ok(if as_json { to_json(&steps, &totals).to_string() } else { table(&head, &steps, &totals) })
    }

    fn begin(&self, config: &Config, key: Option<&Secret>, asked: &str) -> (Rehearsal, String) {
        let asked = self.model.as_deref().unwrap_or(asked);
        let (policy, target) = (self.policy(config, key, asked), self.target(config, asked));
        let shown = |n: usize, none: &str| if n == 0 { none.to_owned() } else { n.to_string() };
        let head = format!(
            "policy   max_input_tokens {}, memory_tokens {}, low_water {}, overflow {:?}, profile {:?}, sticky_tokens {}\n\
             target   {}, window {}, assumed recollection {}",
            shown(policy.max_input_tokens, "none"),
            policy.memory_tokens,
            policy.low_water,
            policy.overflow,
            policy.profile,
            if policy.sticky_tokens == usize::MAX { "none".to_owned() } else { policy.sticky_tokens.to_string() },
            target.model.as_deref().unwrap_or(asked),
            shown(target.window.unwrap_or(0), "unknown"),
            shown(self.recollection_tokens, "none"),
        );
        (Rehearsal::new(policy, target, self.recollection_tokens), head)
    }

    /// The policy of the config for this model and key, with what the arguments say in its place.
    fn policy(&self, config: &Config, key: Option<&Secret>, asked: &str) -> Policy {
        let hash = key.map(|key| Key::hash(key.expose()));
        let own = config.keys.iter().find(|entry| Some(entry.sha256) == hash);
        let configured =
            policies(config).of(asked, &own.map_or_else(PolicyChanges::default, |key| policy_changes(&key.budget)));
        let sticky_tokens = self.sticky_tokens.map(|n| if n == 0 { usize::MAX } else { n });
        let changes = PolicyChanges {
            max_input_tokens: None,
            memory_tokens: self.memory_tokens,
            output_reserve: None,
            low_water: self.low_water,
            overflow: self.overflow,
            profile: self.profile,
            sticky_tokens,
        };
        let policy = configured.with(&changes);
        Policy { max_input_tokens: self.max_input_tokens.unwrap_or(policy.max_input_tokens), ..policy }
    }

    /// The first target behind the name, as far as counting goes.
    fn target(&self, config: &Config, asked: &str) -> Target {
        let configured = config.model(asked);
        let first = configured.and_then(|model| model.targets.iter().min_by_key(|target| target.order));
        let name = self.target.as_deref().or(first.map(|target| target.model.as_str())).unwrap_or(asked);
        let known = Target::for_model(ModelTable::built_in(), name);
        let of_config = first.filter(|_| self.target.is_none());
        Target {
            window: self.window.or(of_config.and_then(|t| t.window).map(|n| n as usize)).or(known.window),
            max_output: of_config.and_then(|t| t.max_output).map(|n| n as usize).or(known.max_output),
            model: Some(name.to_owned()),
            ..known
        }
    }
}

/// Reads a conversation: a chat request, an array of messages, or one object a line (messages, or whole requests); returns the requests
/// that it is made of.
fn conversation(input: &[u8], model: Option<&str>) -> Result<Vec<Bytes>, String> {
    let text = std::str::from_utf8(input).map_err(|_| "it is not UTF-8 text")?;
    if let Ok(whole) = serde_json::from_str::<&RawValue>(text) {
        let body = match whole.get().trim_start().starts_with('[') {
            true => with_messages(whole.get(), model),
            false => with_model(whole.get(), model)?,
        };
        return taken_apart(body);
    }
    let (mut messages, mut whole) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let object: Value = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
        match (object.get("messages"), object.get("role")) {
            (Some(_), _) => whole.push(with_model(line, model)?),
            (None, Some(_)) => messages.push(line),
            (None, None) => return Err(format!("line {}: neither a message nor a chat request", at + 1)),
        }
    }
    match (messages.is_empty(), whole.is_empty()) {
        (false, false) => Err("some lines are messages and some are whole requests: give one or the other".to_owned()),
        (true, _) => Ok(whole),
        (false, true) => taken_apart(with_messages(&format!("[{}]", messages.join(",")), model)),
    }
}

/// The requests that one conversation is made of.
fn taken_apart(body: Bytes) -> Result<Vec<Bytes>, String> {
    let conversation = ChatRequest::decode(body).map_err(|error| error.to_string())?;
    Ok(requests(&conversation).collect())
}

fn with_messages(messages: &str, model: Option<&str>) -> Bytes {
    Bytes::from(format!(r#"{{"model":{},"messages":{messages}}}"#, encode_string(model.unwrap_or(UNNAMED))))
}

/// A request as it is; an export without the model's name gets one.
fn with_model(body: &str, model: Option<&str>) -> Result<Bytes, String> {
    let whole = Bytes::copy_from_slice(body.as_bytes());
    match ChatRequest::decode(whole.clone()) {
        Err(DecodeError::Member { param, .. }) if param == "model" => {
            let (_, rest) = body.split_once('{').ok_or("it is no JSON object")?;
            Ok(Bytes::from(format!(r#"{{"model":{},{rest}"#, encode_string(model.unwrap_or(UNNAMED)))))
        }
        Err(error) => Err(error.to_string()),
        Ok(_) => Ok(whole),
    }
}

/// The model of a conversation that names none.
const UNNAMED: &str = "unknown";

fn percent(share: Share) -> String {
    share.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio))
}

fn percent_of(common: Option<Common>) -> String {
    common.map_or_else(|| "-".to_owned(), |common| format!("{:.1} %", 100.0 * common.share()))
}

fn table(head: &str, steps: &[Step], totals: &Totals) -> String {
    let mut out = format!(
        "{head}\n\n{:>7} {:>5} {:>9} {:>9} {:>9} {:>9} {:>6} {:>10} {:>9} {:>9}\n",
        "request", "turn", "messages", "counted", "sent", "saved", "cut", "shortened", "prefix", "without"
    );
    for (at, step) in steps.iter().enumerate() {
        let sent = step.sent.map_or_else(|| "refused".to_owned(), |sent| sent.to_string());
        let saved = step.sent.map_or_else(String::new, |sent| (step.counted as i64 - sent as i64).to_string());
        out.push_str(&format!(
            "{:>7} {:>5} {:>9} {:>9} {sent:>9} {saved:>9} {:>6} {:>10} {:>9} {:>9}{}{}\n",
            at + 1,
            step.turn,
            step.messages,
            step.counted,
            step.cut,
            step.shortened,
            percent_of(step.prefix),
            percent_of(step.plain_prefix),
            if step.is_tool_loop { "  tool loop" } else { "" },
            if step.newly_cut { "  cut" } else { "" },
        ));
    }
    if let Some(why) = steps.iter().find_map(|step| step.refused.as_deref()) {
        out.push_str(&format!("\nfirst refusal: {why}\n"));
    }
    let saved = totals.counted as i64 - totals.sent as i64;
    out.push_str(&format!(
        "\n{} requests, {} refused, {} cuts\n{} tokens without Backstory, {} with it: {saved} saved ({:.1} %)\n\n\
         in the common prefix with the request before\n{:<14} {:>9} {:>9}\n",
        totals.requests,
        totals.refused,
        totals.cuts,
        totals.counted,
        totals.sent,
        100.0 * saved as f64 / totals.counted.max(1) as f64,
        "",
        "without",
        "with",
    ));
    let kinds = [
        ("chat turns", totals.without.chat, totals.with.chat),
        ("tool loops", totals.without.tool_loop, totals.with.tool_loop),
        ("at a cut", totals.without.cut, totals.with.cut),
    ];
    for (name, without, with) in kinds {
        out.push_str(&format!("{name:<14} {:>9} {:>9}\n", percent(without), percent(with)));
    }
    out.pop();
    out
}

fn to_json(steps: &[Step], totals: &Totals) -> Value {
    let common = |common: Option<Common>| {
        common
            .map(|c| json!({"tokens": c.tokens, "bytes": c.bytes, "of_tokens": c.all_tokens, "of_bytes": c.all_bytes}))
    };
    let share = |share: Share| json!({"prefix_tokens": share.prefix, "tokens": share.all, "ratio": share.ratio()});
    let steps: Vec<Value> = steps
        .iter()
        .map(|step| {
            json!({
                "turn": step.turn, "messages": step.messages, "tool_loop": step.is_tool_loop, "counted": step.counted,
                "sent": step.sent, "refused": step.refused, "cut": step.cut, "newly_cut": step.newly_cut,
                "shortened": step.shortened, "prefix": common(step.prefix), "prefix_without": common(step.plain_prefix),
            })
        })
        .collect();
    let shares = |s: &crate::context::Shares| json!({"chat": share(s.chat), "tool_loop": share(s.tool_loop), "cut": share(s.cut)});
    json!({
        "requests": steps,
        "totals": {
            "requests": totals.requests, "refused": totals.refused, "cuts": totals.cuts, "counted": totals.counted,
            "sent": totals.sent, "saved": totals.counted as i64 - totals.sent as i64,
            "prefix": shares(&totals.with), "prefix_without": shares(&totals.without),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(input: &str) -> Result<Vec<usize>, String> {
        let bodies = conversation(input.as_bytes(), None)?;
        Ok(bodies.into_iter().map(|body| ChatRequest::decode(body).unwrap().messages().len()).collect())
    }

    const USER: &str = r#"{"role":"user","content":"a"}"#;
    const REPLY: &str = r#"{"role":"assistant","content":"b"}"#;

    #[test]
    fn conversations_come_in_several_forms() {
        let request = format!(r#"{{"model":"m","messages":[{USER},{REPLY},{USER}]}}"#);
        assert_eq!(sizes(&request).unwrap(), [1, 3]);
        assert_eq!(sizes(&request.replace(r#""model":"m","#, "")).unwrap(), [1, 3]);
        assert_eq!(sizes(&format!("[{USER},{REPLY},{USER}]")).unwrap(), [1, 3]);
        assert_eq!(sizes(&format!("{USER}\n{REPLY}\n\n{USER}\n")).unwrap(), [1, 3]);
        assert_eq!(sizes(&format!("{request}\n{request}\n")).unwrap(), [3, 3]);
    }

    #[test]
    fn what_is_no_conversation_is_said() {
        assert!(sizes("{\n").unwrap_err().contains("line 1"));
        assert!(sizes(&format!("{USER}\n{{}}")).unwrap_err().contains("line 2"));
        assert!(
            sizes(&format!("{USER}\n{{\"model\":\"m\",\"messages\":[{USER}]}}"))
                .unwrap_err()
                .contains("one or the other")
        );
        assert!(sizes("[]").unwrap_err().contains("messages"));
    }

    #[test]
    fn arguments_go_over_the_config() {
        let config = Config::default();
        let args = DryRunArgs {
            dry_run: true,
            max_input_tokens: Some(500),
            memory_tokens: None,
            low_water: Some(0.5),
            overflow: None,
            profile: Some(Profile::Task),
            sticky_tokens: Some(0),
            recollection_tokens: 0,
            model: None,
            target: Some("gpt-4o".to_owned()),
            window: None,
        };
        let policy = args.policy(&config, None, "m");
        assert_eq!((policy.max_input_tokens, policy.low_water, policy.profile), (500, 0.5, Profile::Task));
        assert_eq!((policy.memory_tokens, policy.sticky_tokens), (1000, usize::MAX));
        assert_eq!(args.target(&config, "m").window, Some(128_000));
        let input = format!(r#"{{"model":"m","messages":[{USER},{REPLY},{USER}]}}"#);
        let text = args.run(&config, None, input.as_bytes(), false).unwrap();
        assert!(text.contains("2 requests, 0 refused, 0 cuts"), "{text}");
        let json: Value = serde_json::from_str(&args.run(&config, None, input.as_bytes(), true).unwrap()).unwrap();
        assert_eq!(json["totals"]["saved"], 0);
        assert_eq!(json["requests"][1]["prefix"]["of_tokens"], json["requests"][1]["sent"]);
    }
}
