//! What people say of themselves: name, ways to reach them, home, work, family, diet, health, preferences, language.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::clause::{is_fleeting, is_fleeting_change};
use super::lists::{CONDITIONS, DIETS, MEDICINES, RELATIVES, ROLES, relative};
use super::value::{clip, members, name, phrase, place, strip_words};
use crate::memory::candidate::Intent;
use crate::memory::normalise::{slug, tidy};
use crate::memory::propose::Finding;
use crate::memory::propose::standing::{LANGUAGES, standing_facet};
use crate::memory::schema::ValueType;

/// Adverbs between a subject and its verb.
const ADVERBS: &str = r"(?:(?:really|also|just|actually|still|now|currently|always|usually|mostly|mainly|generally|typically|personally|absolutely|truly|do|strictly|both|simply|definitely|certainly|recently|finally|only|totally|especially|already|normally|often|have|severely|deathly|highly|mildly|extremely|terribly|very|quite|slightly|seriously|life-threateningly)\s)*";

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = $pattern
                .replace("ADV", ADVERBS)
                .replace("ROLES", ROLES)
                .replace("DIETS", DIETS)
                .replace("CONDITIONS", CONDITIONS)
                .replace("MEDICINES", MEDICINES)
                .replace("RELATIVES", RELATIVES)
                .replace("LANGUAGES", LANGUAGES);
            Regex::new(&format!("(?xi){pattern}")).expect("tested")
        });)*
    };
}

patterns! {
    NAME = r"^(?:my\s(?:full|first|real|given|legal|actual)?\s?name\sis\s(?:now\s)?|i\sam\scalled\s|i\sgo\sby\s|(?:please\s|just\s|you\scan\s|people\s|everyone\s|friends\s|my\sfriends\s|they\s)*calls?\sme\s|i\schanged\smy\s(?:last\s|first\s)?name\sto\s)(.+)";
    INTRODUCTION = r"^(?-i:I\sam\s|This\sis\s|this\sis\s)(?-i:(\p{Lu}\p{Ll}+(?:\s\p{Lu}\p{Ll}+)?))(?:\s(?:from|by\sthe\sway|here|and)(?-u:\b).*)?$";
    BIRTHDAY = r"^(?:my\s(?:birthday|date\sof\sbirth|birth\s?date|dob)\s(?:is|falls)\s(?:on\s)?|i\swas\sborn\s(?:on|in)\s)(.+)";
    PRONOUNS = r"^(?:my\spronouns\sare\s|i\suse\s(?:the\spronouns\s)?)((?:she|he|they|ze|xe|it)(?:\s?(?:/|and|,)\s?\w+){1,2})";
    EMAIL = r"^(?:my\s(?:new\s|work\s|personal\s|private\s|current\s|main\s)*e-?mail(?:\saddress)?\s(?:is|has\schanged\sto|changed\sto)\s(?:now\s)?|you\scan\s(?:reach|e-?mail|contact)\sme\s(?:at|on|under)\s|(?:reach|e-?mail)\sme\sat\s)(.+@.+)";
    PHONE = r"^(?:my\s(?:new\s|work\s|home\s|personal\s|private\s|current\s|cell\s?|mobile\s|tele)*(?:phone|cell|mobile|number)(?:\snumber)?\s(?:is|has\schanged\sto|changed\sto)\s(?:now\s)?|you\scan\s(?:reach|call|text)\sme\s(?:at|on|under)\s)([+(]?\d.+)";
    HOME = r"^(?:i\sADV|we\sADV|i\sam\sADV|we\sare\sADV)(?:live|reside|living|based|located|settled)\s(?:now\s|together\s|alone\s|just\s)*(?:in|at|near|on|outside)\s(.+)|^my\s(?:new\s|home\s|current\s|postal\s|mailing\s)*address\s(?:is|has\schanged\sto)\s(?:now\s)?(.+)|^(?:my\shome\sis|home\s(?:for\sme\s)?is)\s(?:now\s)?(?:in\s)?(.+)";
    MOVED = r"^(?:i|we)\sADV(?:moved|relocated)\s(?:house\s|home\s|recently\s|back\s|over\s|away\s|just\s|permanently\s|here\s)*(?:from\s(?P<from>.+?)\s)?(?:back\s)?(?:in\s)?to\s(?P<to>.+)";
    HOME_ENDED = r"^(?:i|we)\s(?:no\slonger\s(?:live|reside)|am\sno\slonger\s(?:living|based)|stopped\sliving)\s(?:in|at)\s(.+)|^(?:i|we)\s(?:do\snot|don't)\slive\s(?:in|at)\s(.+?)\s(?:any\s?more|now)";
    WORK_PLACE = r"^(?:i\sADV|i\sam\sADV)(?:work|working)\s(?:in|out\sof|from)\s(.+)|^my\soffice\sis\s(?:now\s)?(?:in|at|on)\s(.+)";
    EMPLOYER = r"^(?:i\sADV|i\sam\sADV)(?:work|working|employed)\s(?:full-time\s|part-time\s|remotely\s)?(?:for|at|by)\s(?P<at>.+)|^my\s(?:new\s|current\s)?(?:employer|company)\sis\s(?:now\s)?(?:called\s)?(?P<is>.+)";
    JOINED = r"^i\sADV(?:joined|started\s(?:working\s|a\s(?:new\s)?job\s|work\s)?(?:at|for|with)|got\s(?:a\s(?:new\s)?job|hired|an\soffer)\s(?:at|by|with)|switched\sjobs\sto|changed\sjobs\sto|left\s.{2,40}?\s(?:for|to\sjoin|and\sjoined))\s(.+)";
    LEFT = r"^i\s(?:ADV(?:left|quit|resigned\sfrom)\s(?:my\sjob\s(?:at|with)\s)?|no\slonger\swork\s(?:at|for)\s|do\snot\swork\s(?:at|for)\s|don't\swork\s(?:at|for)\s)(.+)";
    QUIT_JOB = r"^i\sADV(?:quit|left|lost|resigned\sfrom)\smy\sjob$";
    ROLE_AS = r"^(?:i\sADV|i\sam\sADV)(?:work|working|employed)\sas\s(?:an?\s|the\s)?(.+)|^my\s(?:new\s|current\s)?(?:job|role|job\stitle|title|profession|occupation|position)\sis\s(?:now\s)?(?:an?\s|the\s)?(.+)";
    ROLE_IS = r"^i\sam\sADV(?:an?\s|the\s)((?:[\w'/&.+-]+\s){0,5}?ROLES)(?-u:\b)(?:\s(?P<at>(?:at|for|with)\s.+)|\s(?:in|by|and|specializing|specialising|focused|focusing|working|who|on|of)\s.*|[\s,.].*)?$";
    ROLE_CHANGED = r"^i\s(?:ADV)?(?:(?:got|was|have\sbeen|been)\spromoted\sto|became|am\snow|have\sbecome)\s(?:an?\s|the\s)?((?:[\w'/&.+-]+\s){0,5}?ROLES)(?-u:\b)";
    RELATIVE_NAME = r"^(?:my|our)\sRELATIVES(?:'s\s(?:name\sis|called)|\sis\s(?:called|named)|\sgoes\sby)\s(?:now\s)?(?P<name>.+)|^i\sam\smarried\sto\s(?P<spouse>.+)";
    HAVE_RELATIVE = r"^(?:i|we)\s(?:ADV)(?:have|has|adopted|got)\s(?:an?|one|two|three|four|a\snew)\s(?:\w+[\s-]){0,2}?RELATIVESs?(?:\s|,\s)(?:named|called|whose\snames?\s(?:is|are))\s(?P<name>.+)";
    ALLERGIC = r"^(?:i|we)\s(?:am|are)\s(?P<how>ADV)allergic\sto\s(?P<to>.+)|^(?:i\s(?P<how2>ADV)?(?:have|has|got|developed)\s(?:an?\s)?(?P<how3>(?:severe|serious|mild|bad|life-threatening|strong)\s)?(?:allergy|allergies|allergic\sreactions?)\sto\s)(?P<to2>.+)|^i\s(?:ADV)?(?:have|developed|was\sdiagnosed\swith|have\sbeen\sdiagnosed\swith)\s(?:an?\s)?(?P<how4>(?:severe|serious|mild|bad|life-threatening)\s)?(?P<to3>[\w-]+(?:\s[\w-]+)?)\sallergy|^my\s(?:food\s)?allergies\s(?:are|include|:)\s(?P<to4>.+)|^my\s(?P<how5>severe\s)?(?P<to5>[\w-]+)\sallergy\sis\s";
    ALLERGY_ENDED = r"^(?:i|we)\s(?:am\sno\slonger\sallergic\sto|(?:am\snot|ain't)\sallergic\sto\s.{1,60}\s(?:any\s?more|any\slonger|now)$|outgrew\smy|have\soutgrown\smy|ADVoutgrew\smy|no\slonger\shave\s(?:an?\s|my\s)?(?:allergy\sto)?)\s?(?P<to>.*?)(?:\sallerg(?:y|ies))?$|^my\s(?P<to2>[\w-]+)\sallergy\sis\s(?:gone|over|cured)";
    NOT_ANYMORE_ALLERGIC = r"^i\sam\snot\sallergic\sto\s(.+?)\s(?:any\s?more|any\slonger)$";
    DIET = r"^(?:i|we)\s(?:(?:am|are)\s(?:now\s)?ADV(?:an?\s)?|ADV(?:became|turned|went|have\sgone|have\sbecome|have\sturned|have\sbeen)\s(?:an?\s)?)(?:strict\s|lifelong\s|committed\s|ethical\s|mostly\s|fully\s|completely\s)*(DIETS)(?-u:\b)";
    DIET_EATS = r"^(?:i|we)\s(?:ADV(?:eat|follow|keep|am\son|stick\sto|observe)\s(?:only\s)?(?:an?\s|the\s)?(?:strict\s)?)((?:DIETS|low-carb|low-sodium|low-fodmap|mediterranean|raw\sfood|sugar-free)(?:\sdiet|\sfood)?)(?-u:\b)";
    NO_EAT = r"^(?:i|we)\s(?:ADV)(?:don't|do\snot|never|can't|cannot|can\snot)\s(?:ever\s)?(?:eat|drink|consume|tolerate|touch)\s(.+)";
    DIET_ENDED = r"^(?:i|we)\s(?:am\sno\slonger|am\snot|stopped\sbeing|quit\sbeing|gave\sup\sbeing)\s(?:an?\s)?(DIETS)(?P<more>.*)$";
    CONDITION = r"^i\s(?:ADV)(?:have|suffer\sfrom|live\swith|was\s(?:recently\s|just\s)?diagnosed\swith|have\sbeen\sdiagnosed\swith|got\sdiagnosed\swith|am\sdiagnosed\swith|struggle\swith|am\sliving\swith)\s(?:an?\s|some\s)?((?:(?:chronic|severe|mild|type\s\d|type-\d|stage\s\w+|seasonal|bad|clinical|rheumatoid|ulcerative|generalized|social|high|low)\s)*CONDITIONS(?:\s(?:type\s\d|disease|disorder|syndrome))?)";
    CONDITION_IS = r"^i\sam\s(?:an?\s)?ADV((?:type\s\d\s|type-\d\s)?(?:diabetic|asthmatic|epileptic|colou?r[\s-]?blind|deaf|hard\sof\shearing|blind|dyslexic|autistic|an(?:a)?emic|bipolar|legally\sblind|wheelchair\suser|hypertensive|immunocompromised))(?-u:\b)";
    MEDICATION = r"^i\s(?:ADV)(?:take|am\staking|am\son|use|was\s(?:recently\s)?prescribed|have\sbeen\sprescribed|got\sprescribed|started\s(?:taking|on))\s(?:my\s)?(.*(?:MEDICINES)(?-u:\b).*)";
    MEDICATION_ENDED = r"^i\s(?:ADV)(?:stopped\staking|no\slonger\stake|am\sno\slonger\s(?:taking|on)|am\soff|quit\staking|came\soff)\s(?:my\s)?(.+)";
    CONDITION_ENDED = r"^i\s(?:no\slonger\s(?:have|suffer\sfrom)|do\snot\shave|don't\shave)\s(.+?)(?P<any>\sany\s?more)?$";
    FAVOURITE = r"^(?:my|our)\s(?:all-time\s|new\s|absolute\s|current\s)?favou?rite\s(?P<topic>[\w\s-]{2,40}?)\s(?:is|are|has\salways\sbeen)\s(?:now\s|still\s|definitely\s|probably\s|currently\s)*(?P<value>.+)|^(?P<value2>[\w\s'-]{2,40}?)\sis\smy\s(?:all-time\s|new\s|absolute\s)?favou?rite\s(?P<topic2>[\w\s-]{2,30})$";
    PREFER = r"^(?:i|we)\sADV(?:prefer|would\srather\shave)\s(?P<what>.+)|^my\spreferred\s(?P<topic>[\w\s-]{2,30}?)\sis\s(?:now\s)?(?P<value>.+)|^my\spreference\sis\s(?:for\s)?(?P<what2>.+)";
    LIKE = r"^(?:i|we)\s(?P<adverbs>ADV)(?P<verb>love|adore|like|enjoy|hate|dislike|detest|loathe|despise|can't\sstand|cannot\sstand|can\snot\sstand|don't\slike|do\snot\s(?:really\s|particularly\s)?like|don't\sreally\slike|don't\senjoy|do\snot\senjoy|don't\slove|do\snot\slove|don't\scare\sfor|do\snot\scare\sfor|am\s(?:an?\s)?(?:big\s|huge\s|great\s)?fan\sof|am\snot\sa\s(?:big\s|huge\s)?fan\sof|am\sfond\sof|am\snot\sfond\sof|am\sinto|am\sobsessed\swith|am\spassionate\sabout|no\slonger\s(?:like|love|enjoy)|do\snot\slike|stopped\sliking)\s(?P<what>.+)";
    LANGUAGE = r"^my\s(?:native|first|preferred|mother|main|primary)\s(?:language|tongue)\sis\s(?:now\s)?(LANGUAGES)(?-u:\b)|^i\s(?:ADV)(?:prefer|prefer\sto\s(?:speak|write|chat|talk|communicate)(?:\sin)?|prefer\s(?:speaking|writing|chatting|communicating)(?:\sin)?|only\sspeak|mainly\sspeak|mostly\sspeak)\s(LANGUAGES)$";
    SPEAK_ONLY = r"^i\s(?:only|mainly|mostly|just)\sspeak\s(LANGUAGES)$";
    TIME_ZONE = r"^my\stime\s?zone\sis\s(?:now\s)?(.+)|^i\sam\s(?:in|on)\s(?:the\s)?((?:utc|gmt)\s?[+\u{2212}-]?\d{0,2}(?::\d\d)?|(?:eastern|central|pacific|mountain|atlantic)(?:\sstandard|\sdaylight)?\stime|[pcme][sd]?t|cet|cest|ist|jst|bst|aest|\w+/\w+)(?:\stime\s?zone|\stime)?$";
}

/// Nationalities, faiths, diets and moods that "I am …" may name instead of a person.
const NOT_NAMES: &str = " American British Canadian German French Chinese Indian Italian Spanish Mexican Brazilian Portuguese Dutch Russian Japanese Korean Australian Irish Scottish Welsh English Polish Swedish Norwegian Danish Finnish Greek Turkish Egyptian Nigerian Kenyan Vietnamese Thai Indonesian Filipino Argentinian Colombian Chilean Peruvian Ukrainian Czech Hungarian Romanian Austrian Swiss Belgian European Asian African Jewish Muslim Christian Catholic Hindu Buddhist Sikh Atheist Vegan Vegetarian Sorry Happy Sad Tired Hungry Here Back Busy Good Fine Bored Sick Ready Done Lost Confused Curious Diabetic Autistic Pregnant Single Married Retired Unemployed ";

type Out<'a> = &'a mut Vec<Finding>;

pub(super) fn find(clause: &str, out: Out<'_>) {
    let first = clause.split(' ').next().unwrap_or("").to_ascii_lowercase();
    match first.as_str() {
        "i" | "we" => {
            diet(clause, out);
            if out.is_empty() {
                health(clause, out);
            }
            if out.is_empty() {
                home(clause, out);
            }
            if out.is_empty() {
                work(clause, out);
            }
            if out.is_empty() {
                preference(clause, out);
            }
            if out.is_empty() {
                identity(clause, out);
            }
        }
        "my" | "our" => {
            identity(clause, out);
            if out.is_empty() {
                home(clause, out);
            }
            if out.is_empty() {
                work(clause, out);
            }
            if out.is_empty() {
                diet(clause, out);
            }
            if out.is_empty() {
                preference(clause, out);
            }
        }
        "call" | "please" | "just" | "you" | "people" | "everyone" | "friends" | "they" | "this" | "reach"
        | "email" | "e-mail" => identity(clause, out),
        "home" => home(clause, out),
        _ if clause.len() < 90 => favourite(clause, out),
        _ => {}
    }
}

/// The first group that took part in a match.
fn group<'t>(pattern: &Regex, clause: &'t str) -> Option<&'t str> {
    let found = pattern.captures(clause)?;
    found.iter().skip(1).flatten().next().map(|m| m.as_str())
}

fn put(key: &str, value: Option<String>, out: Out<'_>) {
    if let Some(value) = value {
        out.push(Finding::new(key, value));
    }
}

fn identity(clause: &str, out: Out<'_>) {
    if let Some(value) = group(&NAME, clause) {
        let lower = clause.to_ascii_lowercase();
        // "Call me Dr. Chen" says how to be addressed; "call me tomorrow" says neither.
        if lower.contains("call") && value.chars().next().is_some_and(char::is_lowercase) && value.contains(' ') {
            return;
        }
        if let Some(value) = name(value).filter(|v| !is_moment(v)) {
            let mut finding = Finding::new("identity.name", value);
            if lower.starts_with("i changed") {
                finding = finding.intent(Intent::Change);
            }
            out.push(finding);
        }
    } else if let Some(value) = group(&INTRODUCTION, clause) {
        let first = value.split(' ').next().unwrap_or(value);
        if !NOT_NAMES.contains(&format!(" {first} ")) {
            put("identity.name", name(value), out);
        }
    } else if let Some(value) = group(&BIRTHDAY, clause) {
        let value = birthday(value);
        if value.is_some_and(|v| v.contains(|c: char| c.is_ascii_digit())) {
            put("identity.birthday", value.and_then(|v| tidy(v, ValueType::Date)), out);
        }
    } else if let Some(value) = group(&PRONOUNS, clause) {
        put("identity.pronouns", tidy(value, ValueType::Text), out);
    } else if let Some(value) = group(&EMAIL, clause) {
        put("contact.email", tidy(value, ValueType::Email), out);
    } else if let Some(value) = group(&PHONE, clause) {
        put("contact.phone", tidy(value, ValueType::Phone), out);
    } else if let Some(value) = group(&TIME_ZONE, clause) {
        put("time.zone", phrase(value).and_then(|v| tidy(v, ValueType::Text)), out);
    } else if let Some(value) = group(&LANGUAGE, clause).or_else(|| group(&SPEAK_ONLY, clause)) {
        put("language.preferred", tidy(value, ValueType::Language), out);
    } else {
        family(clause, out);
    }
}

fn birthday(text: &str) -> Option<&str> {
    let text = clip(text);
    // "3 March 1990, in Oslo" ends at the comma, "March 3, 1990" does not.
    let end = text
        .match_indices(", ")
        .find(|(at, _)| !text[at + 2..].starts_with(|c: char| c.is_ascii_digit()))
        .map_or(text.len(), |(at, _)| at);
    let text = &text[..end];
    let end = text.find(" in ").unwrap_or(text.len());
    (!text[..end].is_empty()).then(|| &text[..end])
}

fn is_moment(text: &str) -> bool {
    let lower = text.to_lowercase();
    ["tomorrow", "today", "later", "tonight", "back", "when", "asap", "now", "crazy", "old", "anytime", "whatever"]
        .iter()
        .any(|w| lower.starts_with(w))
}

fn family(clause: &str, out: Out<'_>) {
    if let Some(found) = RELATIVE_NAME.captures(clause) {
        let (end, value) = match (found.name("rel"), found.name("name"), found.name("spouse")) {
            (Some(rel), Some(value), _) => (relative(rel.as_str()), value.as_str()),
            (_, _, Some(value)) => ("spouse".to_owned(), value.as_str()),
            _ => return,
        };
        put(&format!("family.{end}"), name(value).filter(|n| n.starts_with(char::is_uppercase)), out);
    } else if let Some(found) = HAVE_RELATIVE.captures(clause) {
        let key = format!("family.{}", relative(&found["rel"]));
        for value in members(&found["name"]).into_iter().filter(|n| n.starts_with(char::is_uppercase)) {
            out.push(Finding::new(key.clone(), value));
        }
    }
}

fn home(clause: &str, out: Out<'_>) {
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
            || super::lists::tool(to.split(' ').next().unwrap_or(to)).is_some()
            || super::lists::device(to).is_some()
        {
            return;
        }
        if let Some(value) =
            place(to).filter(|v| !["department", "team", "role", "position", "job"].iter().any(|w| v.contains(w)))
        {
            out.push(Finding::new("location.home", value).intent(Intent::Change));
        }
    } else if let Some(value) = group(&HOME, clause).filter(|_| !is_fleeting(clause)).and_then(place) {
        let intent = if NOW.is_match(clause) { Intent::Change } else { Intent::State };
        out.push(Finding::new("location.home", value).intent(intent));
    }
}

patterns! {
    NOW = r"(?-u:\b)(?:now|these\sdays|nowadays|has\schanged)(?-u:\b)";
}

fn work(clause: &str, out: Out<'_>) {
    if is_fleeting(clause) && !JOINED.is_match(clause) {
        return;
    }
    let changed = if NOW.is_match(clause) { Intent::Change } else { Intent::State };
    if QUIT_JOB.is_match(clause) {
        out.push(Finding::new("work.employer", Value::Null).intent(Intent::Retract));
    } else if let Some(value) = group(&JOINED, clause) {
        if let Some(value) = company(value) {
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
        put_with("work.role", role(title), changed, out);
        put_with("work.employer", employer.and_then(company), changed, out);
    } else if let Some(found) = ROLE_IS.captures(clause) {
        if let Some((_, city)) = clause.split_once(" based in ").or_else(|| clause.split_once(" living in ")) {
            put_with("location.home", place(city), changed, out);
        }
        put_with("work.role", role(&found[1]), changed, out);
        let employer = found.name("at").and_then(|m| m.as_str().split_once(' ')).and_then(|(_, value)| company(value));
        put_with("work.employer", employer, changed, out);
    } else if let Some(value) = group(&EMPLOYER, clause) {
        put_with("work.employer", company(value), changed, out);
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
    let text =
        [" as ", " in ", " on ", " from ", " where ", " doing ", " and ", " remotely", " full-time", " part-time"]
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
    let value = tidy(strip_words(text, &["a", "an", "the"]), ValueType::Text)?;
    (!vague.iter().any(|v| lower.ends_with(v)) && value.split(' ').count() <= 6).then_some(value)
}

fn diet(clause: &str, out: Out<'_>) {
    if let Some(value) = group(&NOT_ANYMORE_ALLERGIC, clause) {
        retract_all("diet.allergy", value, out);
    } else if let Some(found) = ALLERGY_ENDED.captures(clause).filter(|_| clause.contains("allerg")) {
        if let Some(value) = found.name("to").or_else(|| found.name("to2")) {
            retract_all("diet.allergy", value.as_str().trim_end_matches(" anymore"), out);
        }
    } else if let Some(found) = ALLERGIC.captures(clause) {
        let Some(to) = ["to", "to2", "to3", "to4", "to5"].iter().find_map(|n| found.name(n)) else { return };
        let severe = ["how", "how2", "how3", "how4", "how5"]
            .iter()
            .filter_map(|n| found.name(n))
            .map(|m| m.as_str().to_lowercase())
            .any(|how| {
                ["severe", "deathly", "highly", "extreme", "serious", "life", "terribly", "bad"]
                    .iter()
                    .any(|w| how.contains(w))
            });
        for value in members(to.as_str()).into_iter().filter(|v| !is_pronoun(v)) {
            let finding = Finding::new("diet.allergy", value);
            out.push(if severe { finding.tag("severe") } else { finding });
        }
    } else if let Some(found) = DIET_ENDED.captures(clause) {
        let lower = clause.to_ascii_lowercase();
        let ended = !lower.contains(" am not ")
            || lower.contains("anymore")
            || lower.contains("any more")
            || lower.contains("any longer");
        if ended && let Some(value) = tidy(&found[1], ValueType::Text) {
            out.push(Finding::new("diet.restriction", value).intent(Intent::Retract));
        }
    } else if is_fleeting(clause) {
    } else if let Some(value) = group(&DIET, clause).or_else(|| group(&DIET_EATS, clause)) {
        put("diet.restriction", tidy(value, ValueType::Text), out);
    } else if let Some(value) = group(&NO_EAT, clause) {
        for value in members(value).into_iter().filter(|v| !is_pronoun(v) && !is_meal(v)) {
            out.push(Finding::new("diet.restriction", format!("no {}", strip_words(&value, &["any", "much"]))));
        }
    }
}

fn is_meal(text: &str) -> bool {
    let lower = text.to_lowercase();
    [
        "breakfast",
        "lunch",
        "dinner",
        "out",
        "enough",
        "alone",
        "before",
        "after",
        "late",
        "at",
        "and",
        "too",
        "in",
        "on",
        "with",
        "well",
        "the",
        "your",
        "from",
    ]
    .iter()
    .any(|w| lower.split(' ').next() == Some(w))
}

/// Words that point at something in the talk, so that the value says nothing on its own.
fn is_pronoun(text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or(text).to_lowercase();
    [
        "it",
        "this",
        "that",
        "these",
        "those",
        "them",
        "you",
        "your",
        "him",
        "her",
        "his",
        "one",
        "something",
        "nothing",
        "anything",
        "everything",
        "what",
        "how",
        "when",
        "where",
        "who",
        "both",
        "either",
        "being",
        "to",
        "my",
    ]
    .contains(&first.as_str())
}

fn retract_all(key: &str, list: &str, out: Out<'_>) {
    for value in members(list) {
        out.push(Finding::new(key, value).intent(Intent::Retract));
    }
}

fn health(clause: &str, out: Out<'_>) {
    if let Some(value) = group(&MEDICATION_ENDED, clause) {
        if let Some(value) = medicine(value) {
            out.push(Finding::new("health.medication", value).intent(Intent::Retract));
        }
    } else if let Some(found) = CONDITION_ENDED.captures(clause) {
        let ended = found.name("any").is_some() || clause.to_ascii_lowercase().starts_with("i no longer");
        if ended
            && IS_CONDITION.is_match(&found[1])
            && let Some(value) = phrase(&found[1]).and_then(|v| tidy(v, ValueType::Text))
        {
            out.push(Finding::new("health.condition", value).intent(Intent::Retract));
        }
    } else if let Some(value) = group(&CONDITION, clause).or_else(|| group(&CONDITION_IS, clause)) {
        put("health.condition", tidy(value, ValueType::Text), out);
    } else if let Some(value) = group(&MEDICATION, clause) {
        put("health.medication", medicine(value), out);
    }
}

patterns! {
    IS_CONDITION = r"(?-u:\b)CONDITIONS(?-u:\b)";
}

fn medicine(text: &str) -> Option<String> {
    let text = phrase(text)?;
    let lower = text.to_lowercase();
    let cut = [
        " for ",
        " every ",
        " daily",
        " twice",
        " once",
        " each ",
        " in the ",
        " at night",
        " per ",
        " before ",
        " after ",
        " against ",
        " because ",
    ]
    .iter()
    .filter_map(|w| lower.find(w))
    .min();
    let value = tidy(&text[..cut.unwrap_or(text.len())], ValueType::Text)?;
    let vague = ["medication", "medicine", "pills", "pill", "tablets", "it", "some pills", "the bus"];
    (!vague.contains(&value.to_lowercase().as_str()) && value.split(' ').count() <= 7).then_some(value)
}

fn preference(clause: &str, out: Out<'_>) {
    if is_fleeting(clause) {
        return;
    }
    if let Some(value) = group(&LANGUAGE, clause) {
        put("language.preferred", tidy(value, ValueType::Language), out);
        return;
    }
    if let Some(value) = group(&TIME_ZONE, clause) {
        put("time.zone", phrase(value).and_then(|v| tidy(v, ValueType::Text)), out);
        return;
    }
    if let Some(found) = PREFER.captures(clause) {
        if let (Some(topic), Some(value)) = (found.name("topic"), found.name("value")) {
            topic_value(topic.as_str(), value.as_str(), out);
        } else if let Some(what) = found.name("what").or_else(|| found.name("what2")) {
            prefer(what.as_str(), out);
        }
        return;
    }
    if let Some(found) = LIKE.captures(clause) {
        like(
            &found["verb"],
            &found["what"],
            found.name("adverbs").is_some_and(|a| a.as_str().to_lowercase().contains("now")),
            out,
        );
        return;
    }
    favourite(clause, out);
}

fn favourite(clause: &str, out: Out<'_>) {
    if let Some(found) = FAVOURITE.captures(clause)
        && let (Some(topic), Some(value)) =
            (found.name("topic").or_else(|| found.name("topic2")), found.name("value").or_else(|| found.name("value2")))
    {
        topic_value(topic.as_str(), value.as_str(), out);
    }
}

fn topic_value(topic: &str, value: &str, out: Out<'_>) {
    let value = phrase(value).map(|v| strip_words(v, &["a", "an", "the"])).filter(|v| !is_pronoun(v));
    if let (Some(end), Some(value)) =
        (slug(&topic.to_lowercase().replace("colour", "color"), 4), value.and_then(|v| tidy(v, ValueType::Text)))
    {
        out.push(Finding::new(format!("preference.{end}"), value));
    }
}

/// "Tea over coffee" and "coffee over tea" are about one thing; "dark mode" and "light mode" as well.
fn prefer(what: &str, out: Out<'_>) {
    let lower = what.to_lowercase();
    let bare = strip_words(
        what,
        &["to have", "to drink", "to eat", "to use", "having", "drinking", "eating", "using", "to get", "to"],
    );
    let versus = [" over ", " rather than ", " instead of ", " to ", " than "].iter().find_map(|w| bare.split_once(w));
    let text = clip(bare);
    if let Some(facet) = standing_facet(text) {
        out.push(Finding::new("instruction.standing", text).tag(facet));
        return;
    }
    let picky = [
        "first", "second", "third", "last", "latter", "former", "other", "option", "version", "approach", "solution",
        "one",
    ];
    if is_pronoun(bare) || picky.iter().any(|w| lower.split(' ').take(4).any(|x| x.trim_matches(',') == *w)) {
        return;
    }
    if let Some((a, b)) = versus
        && let (Some(a_slug), Some(b)) = (phrase(a).and_then(|a| slug(a, 3)), phrase(b).and_then(|b| slug(b, 3)))
    {
        let (x, y) = if a_slug < b { (&a_slug, &b) } else { (&b, &a_slug) };
        if let Some(value) = phrase(a).and_then(|v| tidy(v, ValueType::Text)) {
            out.push(Finding::new(format!("preference.{x}_or_{y}"), value));
        }
        return;
    }
    let Some(value) = phrase(bare) else { return };
    let (value, topic) = match value.split_once(" for ") {
        Some((value, topic)) => (value, topic.to_owned()),
        None => {
            let words: Vec<&str> = value.split(' ').collect();
            let head =
                if (2..=3).contains(&words.len()) && !value.contains(" in ") { words[words.len() - 1] } else { value };
            (value, head.to_owned())
        }
    };
    if value.split(' ').count() > 8 {
        return;
    }
    if let (Some(end), Some(value)) = (slug(&singular(&topic), 4), tidy(value, ValueType::Text)) {
        out.push(Finding::new(format!("preference.{end}"), value));
    }
}

fn singular(topic: &str) -> String {
    let topic = topic.to_lowercase();
    match topic.strip_suffix('s') {
        Some(bare) if bare.len() > 3 && !bare.ends_with(['s', 'u', 'i']) => bare.to_owned(),
        _ => topic,
    }
}

fn like(verb: &str, what: &str, now: bool, out: Out<'_>) {
    let verb = verb.to_lowercase();
    let lower = what.to_lowercase();
    // "I like to know", "I love how you …", "I like the idea": about the talk, not about the speaker.
    let about_talk = [
        "to know",
        "to see",
        "to ask",
        "to hear",
        "to understand",
        "how ",
        "the way",
        "the idea",
        "the first",
        "the second",
        "the last",
        "the answer",
        "the sound of",
        "where ",
        "what ",
        "when ",
        "that ",
        "the new version",
        "the suggestion",
    ];
    if is_pronoun(strip_words(what, &["to"])) && !lower.starts_with("to ")
        || about_talk.iter().any(|w| lower.starts_with(w))
    {
        return;
    }
    let bare = strip_words(
        what,
        &[
            "to eat",
            "to drink",
            "eating",
            "drinking",
            "all kinds of",
            "any kind of",
            "the taste of",
            "the smell of",
            "to",
        ],
    );
    let ends_before = bare.find(" and ").filter(|_| bare.split(' ').count() > 6).map_or(bare, |at| &bare[..at]);
    let negative = verb.contains("not")
        || verb.contains("n't")
        || ["hate", "dislike", "detest", "loathe", "despise"].contains(&verb.as_str())
        || verb.contains("stand");
    let shown = match verb.as_str() {
        "love" | "adore" | "am obsessed with" => "loves",
        "hate" | "detest" | "loathe" | "despise" => "hates",
        v if v.contains("no longer") || v.contains("stopped") => "no longer likes",
        v if v.contains("stand") => "cannot stand",
        _ if negative || lower.ends_with(" anymore") => "dislikes",
        "enjoy" => "enjoys",
        _ => "likes",
    };
    let change = now || shown == "no longer likes" || lower.ends_with(" anymore") || lower.ends_with(" any more");
    let parts = if ends_before.contains(", ") || (ends_before.contains(" and ") && ends_before.split(' ').count() <= 6)
    {
        members(ends_before)
    } else {
        phrase(ends_before).into_iter().filter_map(|v| tidy(v, ValueType::Text)).collect()
    };
    for value in parts {
        if value.split(' ').count() > 7 || is_pronoun(&value) {
            continue;
        }
        if let Some(end) = slug(&singular(&value), 4) {
            let finding = Finding::new(format!("preference.{end}"), format!("{shown} {value}"));
            out.push(if change { finding.intent(Intent::Change) } else { finding });
        }
    }
}
