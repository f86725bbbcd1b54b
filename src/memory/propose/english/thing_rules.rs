//! What people say of their things: devices, projects and their tools, orders, recurring dates.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::clause::{is_fleeting, is_fleeting_change};
use super::lists::{device, tool};
use super::value::{clip, phrase, strip_words};
use crate::base::Time;
use crate::memory::candidate::Intent;
use crate::memory::dates;
use crate::memory::normalise::{slug, tidy};
use crate::memory::propose::{Finding, captures};
use crate::memory::schema::ValueType;

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new(concat!("(?xi)", $pattern)).expect("tested"));)*
    };
}

patterns! {
    DEVICE_IS = r"^my\s(?:new\s|old\s|main\s|work\s|current\s|personal\s)*(phone|laptop|computer|tablet|watch|tv|printer|camera|router|desktop|car|bike|console|e-reader|keyboard|monitor|headphones)\s(?:is|are)\s(?:now\s)?(?:an?\s|the\s)?(.+)";
    OWN = r"^(?:i|we)\s(?:\w+ly\s|also\s|just\s|now\s|still\s)*(?P<verb>have|own|use|am\susing|drive|bought|got|purchased|(?:switched|upgraded|changed)(?:\sfrom\s.{2,30}?)?\sto|am\snow\susing)\s(?:an?\s|my\s|the\s)(?:new\s|old\s|used\s)*(?P<what>.+)";
    DRIVE = r"^i\s(?:\w+ly\s|also\s|now\s)*(?:drive|ride)\s(?:an?\s)(?:new\s|old\s|used\s)*(.+)";
    SOLD = r"^(?:i|we)\s(?:just\s|recently\s|finally\s|have\s|already\s)*(?:sold|gave\saway|got\srid\sof|scrapped|returned|lost|no\slonger\s(?:have|own|drive|use))\s(?:my|the|our|an?)\s(?:old\s)?(.+)";
    SYSTEM = r"^(?:i\s(?:\w+ly\s|also\s|now\s)*(?:use|run|am\son|am\srunning|am\susing)|my\s(?:laptop|computer|pc|machine|work\slaptop|desktop)\s(?:runs|is\srunning|is\son|uses))\s(?P<os>windows(?:\s\d+)?|mac\s?os(?:\s\w+)?|linux|ubuntu(?:\s[\d.]+)?|arch(?:\slinux)?|debian(?:\s\d+)?|fedora(?:\s\d+)?|nixos|android|chromeos|linux\smint|pop!?_?os)(?-u:\b)";
    EDITOR = r"^(?:i\s(?:\w+ly\s|also\s|now\s)*(?:use|code\sin|work\sin|am\susing|switched\sto|write\scode\sin)|my\s(?:editor|ide)\sis)\s(?:now\s)?(?P<editor>vs\s?code|visual\sstudio(?:\scode)?|vim|neovim|emacs|helix|zed|intellij(?:\sidea)?|pycharm|webstorm|rustrover|sublime(?:\stext)?|xcode|cursor|eclipse|nano|android\sstudio)(?-u:\b)";
    PROJECT = r"^(?:we|our\s(?:\w+\s)?(?:team|repo|repository|project|company|codebase|code\sbase|app|backend|frontend|front\send|back\send|stack|monorepo|service|build|ci|api|site|website|product|startup)|(?:this|the)\s(?:repo|repository|project|codebase|monorepo)|my\s(?:\w+\s)?(?:project|repo|repository|team|app|startup|side\sproject|codebase|website|site|blog|thesis))\s(?:\w+ly\s|also\s|now\s|all\s|always\s|just\s|still\s|have\s)*(?P<verb>uses?|using|are\susing|is\susing|runs?(?:\son|\swith)?|is\sbuilt\s(?:with|on|in)|is\swritten\sin|is\sin|are\son|is\son|deploys?\s(?:to|on|with|via)|hosts?\son|is\shosted\son|is\sdeployed\s(?:to|on)|tests?\swith|switched|migrated|moved|changed|no\slonger\suses?|stopped\susing|dropped|builds?\swith|standardi[sz]ed\son|adopted|rely\son|relies\son)\s(?:from\s(?P<from>[\w.+\#\s-]{1,30}?)\s)?(?:over\s)?(?:to\s)?(?:using\s)?(?P<what>.+)";
    TOOL_IS = r"^our\s(?:ci|database|db|stack|tracker|issue\stracker|test\sframework|test\srunner|package\smanager|framework|build\stool|linter|hosting|cloud|language)(?:\s\w+)?\sis\s(?:now\s)?(.+)";
    PROJECT_NAME = r"^(?:my|our|the)\s(?:\w+\s)?(?:project|app|startup|product|repo|side\sproject|company|team)(?:'s\sname)?\sis\s(?:called|named)\s(.+)|^(?:i\sam|we\sare)\s(?:working\son|building)\s(?:an?\s)?(?:\w+\s){0,3}?(?:called|named)\s(.+)";
    CODE_IN = r"^(?:i|we)\s(?:\w+ly\s|also\s|now\s)*(?:code|program|write\scode|develop|write\severything|write)\s(?:\w+ly\s)?(?:in\s)(.+)";
    ORDER = r"(?-u:\b)(?:my|our|the)\s(?:\w+\s)?order(?:\s(?:number|no\.?|id|code|reference|ref))?(?:\sis|:|\s=)?\s(?:now\s)?(?:number\s|no\.?\s)?\#?(?P<id>[a-z]{0,6}-?\d[a-z0-9-]{2,24})(?:$|[\s,.!?;)])|^order\s(?:number|no\.?|id)(?:\sis|:)?\s\#?(?P<id2>[a-z]{0,6}-?\d[a-z0-9-]{2,24})(?:$|[\s,.!?;)])";
    SCHEDULE_HAVE = r"^(?:i|we)\s(?:\w+ly\s|also\s|always\s)*(?:have|go\sto|attend|take|teach|do|play|practi[cs]e|run|train(?:\sfor)?|visit|work\sout|meet(?:\swith)?|call|swim|see)\s?(?:an?\s|my\s|the\s|our\s)?(?P<what>[\w\s'-]{0,40}?)\s?(?P<when>(?:every|each|on)\s(?:other\s|single\s)?(?:day|week|weekday|weekend|morning|evening|night|month|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?)(?-u:\b).*|(?:daily|weekly|monthly)(?-u:\b).*|(?:twice|once|three\stimes|\w+\stimes)\sa\s(?:day|week|month)(?-u:\b).*)";
    SCHEDULE_IS = r"^(?:my|our)\s(?P<what>[\w\s'-]{2,40}?)\s(?:is|are|meets|takes\splace|happens)\s(?:always\s|now\s|moved\sto\s)?(?P<when>(?:every|each)\s(?:other\s)?(?:day|week|weekday|morning|evening|month|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?)(?-u:\b).*|on\s(?:mondays|tuesdays|wednesdays|thursdays|fridays|saturdays|sundays|weekdays|weekends)(?-u:\b).*)";
    APPOINTMENT = r"^(?:my|our)\s(?P<what>[\w\s'-]{0,30}?(?:appointment|exam|test|interview|flight|meeting|wedding|surgery|operation|deadline|trip|party|concert|graduation|anniversary|due\sdate|presentation|conference|race|marathon|recital|check-?up|hearing|viva|train|reservation|booking|finals?|court\sdate|moving\sday))\s(?:is|are|was\smoved\sto|got\smoved\sto|has\sbeen\smoved\sto|moved\sto|starts|leaves|departs|takes\splace)\s(?:now\s)?(?:scheduled\s(?:for\s|on\s)?)?(?P<when>.+)$";
    FLEETING_DAY = r"(?-u:\b)(?:today|tonight|tomorrow|this\s(?:morning|afternoon|evening))(?-u:\b)";
    DATED = r"(?-u:\b)(?:mon|tues|wednes|thurs|fri|satur|sun)days?(?-u:\b)|(?-u:\b)(?:morning|evening|weekend|weekday|at\s\d|times\sa\sweek|once\sa\sweek|twice\sa\sweek)";
    PLURAL_DAY = r"(?-u:\b)on\s(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)(?-u:\b)";
}

type Out<'a> = &'a mut Vec<Finding>;

pub(super) fn find(clause: &str, out: Out<'_>) {
    order(clause, out);
    if out.is_empty() {
        appointment(clause, out);
    }
    if out.is_empty() {
        project(clause, out);
    }
    // "I sold it yesterday" lasts.
    let lasts = !is_fleeting(clause) || (SOLD.is_match(clause) && !is_fleeting_change(clause));
    if out.is_empty() && lasts {
        device_rules(clause, out);
    }
    if out.is_empty() && !is_fleeting(clause) {
        schedule(clause, out);
    }
}

fn order(clause: &str, out: Out<'_>) {
    if let Some(found) = captures(&ORDER, clause)
        && let Some(id) = found.name("id").or_else(|| found.name("id2"))
    {
        out.push(Finding::new("order.id", id.as_str()));
    }
}

fn put(key: &str, value: Option<String>, change: bool, out: Out<'_>) {
    if let Some(value) = value {
        let finding = Finding::new(key, value);
        out.push(if change { finding.intent(Intent::Change) } else { finding });
    }
}

fn project(clause: &str, out: Out<'_>) {
    if let Some(found) = captures(&PROJECT_NAME, clause) {
        let value = found
            .get(1)
            .or_else(|| found.get(2))
            .and_then(|m| phrase(m.as_str()))
            .and_then(|v| tidy(v, ValueType::Text));
        put("project.name", value.filter(|v| v.split(' ').count() <= 5), false, out);
        return;
    }
    if let Some(value) = captures(&CODE_IN, clause).and_then(|c| c.get(1)).and_then(|m| phrase(m.as_str()))
        && tool(value).is_some_and(|kind| kind == "language")
    {
        put("project.language", tidy(value, ValueType::Text), false, out);
        return;
    }
    if let Some(found) = captures(&TOOL_IS, clause)
        && let Some(value) = phrase(&found[1])
        && let Some(kind) = tool(value)
    {
        put(&format!("project.{kind}"), tidy(value, ValueType::Text), clause.contains(" now "), out);
        return;
    }
    let Some(found) = captures(&PROJECT, clause) else { return };
    let verb = found["verb"].to_lowercase();
    let what = clip(&found["what"]);
    let ended = verb.starts_with("no longer") || verb.starts_with("stopped") || verb.starts_with("dropped");
    let change = ["switched", "migrated", "moved", "changed", "adopted"].iter().any(|v| verb.starts_with(v));
    let end = [" for ", " as ", " in ", " on ", " instead", " with ", " and ", ", ", " from ", " rather"]
        .iter()
        .filter_map(|w| what.find(w))
        .min();
    let value = what[..end.unwrap_or(what.len())].trim();
    let value = strip_words(value, &["the", "a", "an"]);
    let Some(kind) = tool(value) else {
        // An unknown tool is told by its form (`Foo`, `foo.js`), and by what it is for.
        let named = value.split(' ').count() <= 3 && value.chars().any(|c| c.is_uppercase() || c == '.' || c == '-');
        if named && !change && verb.starts_with("use") && !ended {
            let key = purpose(what).map_or_else(|| "project.tool".to_owned(), |p| format!("project.{p}"));
            put(&key, tidy(value, ValueType::Text), false, out);
        }
        return;
    };
    let key = format!("project.{kind}");
    if ended {
        out.push(Finding::new(key, value).intent(Intent::Retract));
    } else {
        put(&key, tidy(value, ValueType::Text), change, out);
        // "React with TypeScript and Postgres": the others as well.
        let rest = end.map_or("", |end| &what[end..]);
        for more in rest.split([',']).flat_map(|p| p.split(" and ")).flat_map(|p| p.split(" with ")) {
            let more = more.trim();
            if let Some(kind) = tool(more)
                && !rest.starts_with(" instead")
                && !rest.starts_with(" rather")
                && !rest.starts_with(" from")
            {
                put(&format!("project.{kind}"), tidy(more, ValueType::Text), change, out);
            }
        }
    }
}

/// "… for monitoring": what an unknown tool is for.
fn purpose(what: &str) -> Option<String> {
    let (_, purpose) =
        what.split_once(" for ").or_else(|| what.split_once(" as our ")).or_else(|| what.split_once(" as the "))?;
    slug(phrase(purpose)?, 3)
}

fn device_rules(clause: &str, out: Out<'_>) {
    if let Some(found) = SYSTEM.captures(clause) {
        put("device.os", tidy(&found["os"], ValueType::Text), false, out);
    } else if let Some(found) = EDITOR.captures(clause) {
        put("device.editor", tidy(&found["editor"], ValueType::Text), clause.contains("switched"), out);
    } else if let Some(value) = SOLD.captures(clause).and_then(|c| c.get(1)).and_then(|m| phrase(m.as_str())) {
        let value = value.split(" to ").next().unwrap_or(value);
        if let Some(kind) = device(value) {
            let generic = value.split(' ').count() == 1 && value.eq_ignore_ascii_case(kind);
            let value = if generic { Value::Null } else { Value::from(value) };
            out.push(Finding::new(format!("device.{kind}"), value).intent(Intent::Retract));
        }
    } else if let Some(found) = DEVICE_IS.captures(clause) {
        let value = phrase(&found[2]).filter(|v| is_product(v));
        put(
            &format!("device.{}", found[1].to_lowercase().replace('-', "_")),
            value.and_then(|v| tidy(v, ValueType::Text)),
            clause.contains(" now ") || clause.starts_with("my new"),
            out,
        );
    } else if let Some(value) = DRIVE.captures(clause).and_then(|c| c.get(1)).and_then(|m| phrase(m.as_str())) {
        let value = value.split(" to ").next().unwrap_or(value);
        put("device.car", tidy(value, ValueType::Text).filter(|v| is_product(v)), false, out);
    } else if let Some(found) = OWN.captures(clause)
        && let Some(value) = phrase(&found["what"])
    {
        let value = value.split(" for ").next().unwrap_or(value);
        let value = value.split(" from ").next().unwrap_or(value);
        let change = ["switched", "upgraded", "changed", "bought", "got", "purchased"]
            .iter()
            .any(|v| found["verb"].to_lowercase().starts_with(v));
        if let Some(kind) = device(value)
            && is_product(value)
        {
            put(&format!("device.{kind}"), tidy(value, ValueType::Text), change, out);
        }
    }
}

/// A product has a name or a number; "broken", "really slow" and "on fire" have neither.
fn is_product(text: &str) -> bool {
    text.split(' ').count() <= 6
        && text.chars().any(|c| c.is_uppercase() || c.is_ascii_digit())
        && ![
            "on", "in", "at", "not", "too", "very", "so", "about", "charging", "running", "dead", "broken", "out",
            "with",
        ]
        .contains(&text.split(' ').next().unwrap_or(""))
}

/// "My dentist appointment is in two weeks". The gate reads the day against the time it was said.
fn appointment(clause: &str, out: Out<'_>) {
    let Some(found) = APPOINTMENT.captures(clause) else { return };
    let Some(when) = phrase(&found["when"]) else { return };
    // What is today or tomorrow is over before it is of use.
    if FLEETING_DAY.is_match(when) {
        return;
    }
    // Any day will do to tell whether it is a time.
    let told = dates::find(when, Time(0)).is_some_and(|(range, _)| range.start <= "on the ".len());
    if let (true, Some(end), Some(value)) = (told, slug(&found["what"], 3), tidy(when, ValueType::Text)) {
        let moved = clause.contains(" moved ") || clause.contains(" now ");
        put(&format!("schedule.{end}"), Some(value), moved, out);
    }
}

fn schedule(clause: &str, out: Out<'_>) {
    let Some(found) = SCHEDULE_IS.captures(clause).or_else(|| SCHEDULE_HAVE.captures(clause)) else { return };
    let when = clip(&found["when"]);
    // "On Monday" is once; "on Mondays" and "every Monday" are habits.
    if PLURAL_DAY.is_match(when) && !when.to_lowercase().contains("every") {
        return;
    }
    let what = found["what"].trim();
    let lower = format!("{} ", what.to_lowercase());
    // What runs every night in a script is no one's diary.
    let dated = DATED.is_match(when)
        && !["this ", "that ", "it ", "these ", "data ", "list ", "to ", "some "].iter().any(|w| lower.starts_with(w));
    if !dated {
        return;
    }
    let what = if what.is_empty() { clause.split(' ').nth(1).unwrap_or("habit") } else { what };
    if let (Some(end), Some(value)) = (slug(what, 3), tidy(when, ValueType::Text)) {
        out.push(Finding::new(format!("schedule.{end}"), value));
    }
}
