//! Home and work.

use serde_json::Value;

use super::super::clause::{is_fleeting, is_fleeting_change};
use super::super::lists::{device, tool};
use super::super::value::{phrase, place, strip_words};
use super::{Out, group, patterns};
use crate::memory::candidate::Intent;
use crate::memory::normalise::tidy;
use crate::memory::propose::Finding;
use crate::memory::schema::ValueType;

patterns! {
    HOME = r"^(?:i\sADV|we\sADV|i\sam\sADV|we\sare\sADV|(?:i|we)\shave\sbeen\s)(?:live|reside|living|based|located|settled)\s(?:now\s|together\s|alone\s|just\s|with\s(?:my|our|the|a|two|three|\d)\s?[\w\s]{2,28}?\s)*(?:in|at|near|on|outside)\s(.+)|^my\s(?:new\s|home\s|current\s|postal\s|mailing\s)*address\s(?:is|has\schanged\sto)\s(?:now\s)?(.+)|^(?:my\shome\sis|home\s(?:for\sme\s)?is)\s(?:now\s)?(?:in\s)?(.+)";
    MOVED = r"^(?:i|we)\sADV(?:moved|relocated)\s(?:house\s|home\s|recently\s|back\s|over\s|away\s|just\s|permanently\s|here\s)*(?:from\s(?P<from>.+?)\s)?(?:back\s)?(?:in\s)?to\s(?P<to>.+)";
    HOME_ENDED = r"^(?:i|we)\s(?:no\slonger\s(?:live|reside)|am\sno\slonger\s(?:living|based)|stopped\sliving)\s(?:in|at)\s(.+)|^(?:i|we)\s(?:do\snot|don't)\slive\s(?:in|at)\s(.+?)\s(?:any\s?more|now)";
    WORK_PLACE = r"^(?:i\sADV|i\sam\sADV)(?:work|working)\s(?:in|out\sof|from)\s(.+)|^my\soffice\sis\s(?:now\s)?(?:in|at|on)\s(.+)";
    EMPLOYER = r"^(?:i\sADV|i\sam\sADV)(?:work|working|employed)\s(?:full-time\s|part-time\s|remotely\s)?(?:for|at|by)\s(?P<at>.+)|^my\s(?:new\s|current\s)?(?:employer|company)\sis\s(?:now\s)?(?:called\s)?(?P<is>.+)";
    JOINED = r"^i\sADV(?:joined|started\s(?:at|(?:working|work|a\s(?:new\s)?job)\s(?:at|for|with))|got\s(?:a\s(?:new\s)?job|hired|an\soffer)\s(?:at|by|with)|switched\sjobs\sto|changed\sjobs\sto|left\s.{2,40}?\s(?:for|to\sjoin|and\sjoined))\s(.+)";
    LEFT = r"^i\s(?:ADV(?:left|quit|resigned\sfrom)\s(?:my\sjob\s(?:at|with)\s)?|no\slonger\swork\s(?:at|for)\s|do\snot\swork\s(?:at|for)\s|don't\swork\s(?:at|for)\s)(.+)";
    QUIT_JOB = r"^i\sADV(?:quit|left|lost|resigned\sfrom)\smy\sjob$";
    RETIRED = r"^i\s(?:ADV|just\s)*(?:retired|am\s(?:now\s)?retired)(?:\s(?:from|after|at|in)\s.+|$|\slast\s.+)";
    ROLE_AS = r"^(?:i\sADV|i\sam\sADV)(?:work|working|employed)\sas\s(?:an?\s|the\s)?(.+)|^my\s(?:new\s|current\s)?(?:job|role|job\stitle|title|profession|occupation|position)\sis\s(?:now\s)?(?:an?\s|the\s)?(.+)";
    ROLE_IS = r"^i\sam\sADV(?:an?\s|the\s)((?:[\w'/&.+-]+\s){0,5}?ROLES)(?-u:\b)(?:\s(?P<at>(?:at|for|with)\s.+)|\s(?:in|by|and|specializing|specialising|focused|focusing|working|who|on|of)\s.*|[\s,.].*)?$";
    ROLE_CHANGED = r"^i\s(?:ADV)?(?:(?:got|was|have\sbeen|been)\spromoted\sto|became|am\snow|have\sbecome)\s(?:an?\s|the\s)?((?:[\w'/&.+-]+\s){0,5}?ROLES)(?-u:\b)";
    IS_ROLE = r"(?-u:\b)ROLES(?-u:\b)";
    SOFTWARE = r"^(?:linux|windows|mac|macos|android|ios|iphone|firefox|chrome|safari|brave|obsidian|notion|arch|ubuntu|debian|fedora|nixos|wayland|neovim|vim|emacs|zsh|fish|tmux|vs\s?code|cursor|slack|discord|signal|chatgpt|claude|gemini|gpt|v\d)(?-u:\b)";
    NOW = r"(?-u:\b)(?:now|these\sdays|nowadays|has\schanged)(?-u:\b)";
}

pub(super) fn home(clause: &str, out: Out<'_>) {
    if let Some(value) = group(&HOME_ENDED, clause) {
        if let Some(value) = place(value) {
            out.push(Finding::new("location.home", value).intent(Intent::Retract));
        }
    } else if let Some(found) = MOVED.captures(clause) {
        let to = &found["to"];
        let lower = to.to_ascii_lowercase();
        // "to a new flat in Rome" is a place by its "in".
        let to = match lower.find(" in ") {
            Some(at) if ["a ", "an ", "the ", "my ", "our "].iter().any(|a| lower.starts_with(a)) => &to[at + 4..],
            _ => to,
        };
        let to = to.split_once(" from ").map_or(to, |(to, _)| to);
        if is_fleeting_change(clause)
            || SOFTWARE.is_match(to)
            || tool(to.split(' ').next().unwrap_or(to)).is_some()
            || device(to).is_some()
        {
            return;
        }
        if let Some(value) =
            place(to).filter(|v| !["department", "team", "role", "position", "job"].iter().any(|w| v.contains(w)))
        {
            out.push(Finding::new("location.home", value).intent(Intent::Change));
        }
    } else if let Some(value) = group(&HOME, clause).filter(|_| !is_fleeting(clause)).and_then(place) {
        // "My address is wrong" is none.
        if clause.to_ascii_lowercase().starts_with("my ")
            && !value.contains(|c: char| c.is_uppercase() || c.is_ascii_digit())
        {
            return;
        }
        let intent = if NOW.is_match(clause) { Intent::Change } else { Intent::State };
        out.push(Finding::new("location.home", value).intent(intent));
    }
}

pub(super) fn work(clause: &str, out: Out<'_>) {
    if is_fleeting(clause) && !JOINED.is_match(clause) {
        return;
    }
    let changed = if NOW.is_match(clause) { Intent::Change } else { Intent::State };
    if QUIT_JOB.is_match(clause) {
        out.push(Finding::new("work.employer", Value::Null).intent(Intent::Retract));
    } else if RETIRED.is_match(clause) {
        for key in ["work.employer", "work.role"] {
            out.push(Finding::new(key, Value::Null).intent(Intent::Retract));
        }
    } else if let Some(value) = group(&JOINED, clause) {
        if let Some(value) = company(value).filter(|v| v.starts_with(char::is_uppercase)) {
            out.push(Finding::new("work.employer", value).intent(Intent::Change));
        }
        if let Some(role) = value.split_once(" as ").and_then(|(_, role)| self::role(role)) {
            out.push(Finding::new("work.role", role).intent(Intent::Change));
        }
    } else if let Some(value) = group(&LEFT, clause) {
        if let Some(value) = company(value).filter(|v| v.starts_with(char::is_uppercase)) {
            out.push(Finding::new("work.employer", value).intent(Intent::Retract));
        }
    } else if let Some(value) = group(&ROLE_CHANGED, clause) {
        put_with("work.role", role(value), Intent::Change, out);
    } else if let Some(value) = group(&ROLE_AS, clause) {
        let (title, employer) = split_employer(value);
        // "My job is boring" names no role; "I work as a dog walker" does, whatever it is.
        let named = clause.to_ascii_lowercase().contains(" as ") || IS_ROLE.is_match(title);
        put_with("work.role", role(title).filter(|_| named), changed, out);
        put_with("work.employer", employer.and_then(company), changed, out);
    } else if let Some(found) = ROLE_IS.captures(clause) {
        if let Some((_, city)) = clause.split_once(" based in ").or_else(|| clause.split_once(" living in ")) {
            put_with("location.home", place(city), changed, out);
        }
        put_with("work.role", role(&found[1]), changed, out);
        let employer = found.name("at").and_then(|m| m.as_str().split_once(' ')).and_then(|(_, value)| company(value));
        put_with("work.employer", employer, changed, out);
    } else if let Some(value) = group(&EMPLOYER, clause) {
        let named = !clause.to_ascii_lowercase().starts_with("my ") || value.starts_with(char::is_uppercase);
        put_with("work.employer", company(value).filter(|_| named), changed, out);
        if let Some(role) = value.split_once(" as ").and_then(|(_, role)| self::role(role)) {
            out.push(Finding::new("work.role", role).intent(changed));
        }
    } else if let Some(value) = group(&WORK_PLACE, clause)
        && !value.to_ascii_lowercase().starts_with("home")
        && let Some(value) = place(value).filter(|v| v.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit()))
    {
        out.push(Finding::new("location.work", value).intent(changed));
    }
}

fn put_with(key: &str, value: Option<String>, intent: Intent, out: Out<'_>) {
    if let Some(value) = value {
        out.push(Finding::new(key, value).intent(intent));
    }
}

fn split_employer(text: &str) -> (&str, Option<&str>) {
    [" at ", " for ", " with "]
        .iter()
        .find_map(|w| text.split_once(w))
        .map_or((text, None), |(role, employer)| (role, Some(employer)))
}

fn company(text: &str) -> Option<String> {
    let text = phrase(text)?;
    let text = [
        " as ",
        " in ",
        " on ",
        " from ",
        " where ",
        " doing ",
        " studying ",
        " and ",
        " remotely",
        " full-time",
        " part-time",
    ]
    .iter()
    .filter_map(|w| text.find(w))
    .min()
    .map_or(text, |at| &text[..at]);
    let first = text.split(' ').next().unwrap_or(text).to_lowercase();
    let vague = [
        "my", "home", "myself", "it", "that", "this", "his", "her", "their", "night", "weekends", "money", "fun",
        "free", "them", "him", "work", "you", "now", "least", "all",
    ];
    let value = tidy(text, ValueType::Text)?;
    (!vague.contains(&first.as_str()) && value.split(' ').count() <= 6).then_some(value)
}

fn role(text: &str) -> Option<String> {
    let text = phrase(text)?;
    let text = [" at ", " for ", " with ", " in ", " and ", " on ", " from "]
        .iter()
        .filter_map(|w| text.find(w))
        .min()
        .map_or(text, |at| &text[..at]);
    let lower = text.to_lowercase();
    let vague = [
        "big fan",
        "fan",
        "bit",
        "huge",
        "beginner",
        "new user",
        "member",
        "person",
        "user",
        "lover",
        "morning person",
    ];
    // "A good cook" is no cook by trade.
    let qualities = [
        "good", "bad", "great", "terrible", "slow", "fast", "big", "huge", "decent", "keen", "avid", "former",
        "retired", "lousy", "amateur",
    ];
    if qualities.contains(&lower.split(' ').next().unwrap_or("")) {
        return None;
    }
    let value = tidy(strip_words(text, &["a", "an", "the"]), ValueType::Text)?;
    (!vague.iter().any(|v| lower.ends_with(v)) && value.split(' ').count() <= 6).then_some(value)
}
