//! Allergies, diets, conditions and medicines.

use super::super::clause::is_fleeting;
use super::super::value::{members, phrase, strip_words};
use super::{Out, group, is_pronoun, patterns, put};
use crate::memory::candidate::Intent;
use crate::memory::normalise::tidy;
use crate::memory::propose::Finding;
use crate::memory::schema::ValueType;

patterns! {
    ALLERGIC = r"^(?:i|we)\s(?:am|are)\s(?P<how>ADV)allergic\sto\s(?P<to>.+)|^(?:i\s(?P<how2>ADV)?(?:have|has|got|developed)\s(?:an?\s)?(?P<how3>(?:severe|serious|mild|bad|life-threatening|strong)\s)?(?:allergy|allergies|allergic\sreactions?)\sto\s)(?P<to2>.+)|^i\s(?:ADV)?(?:have|developed|was\sdiagnosed\swith|have\sbeen\sdiagnosed\swith)\s(?:an?\s)?(?P<how4>(?:severe|serious|mild|bad|life-threatening)\s)?(?P<to3>[\w-]+(?:\s[\w-]+)?)\sallergy|^my\s(?:food\s)?allergies\s(?:are|include|:)\s(?P<to4>.+)|^my\s(?P<how5>severe\s)?(?P<to5>[\w-]+)\sallergy\sis\s";
    ALLERGY_ENDED = r"^(?:i|we)\s(?:am\sno\slonger\sallergic\sto|(?:am\snot|ain't)\sallergic\sto\s.{1,60}\s(?:any\s?more|any\slonger|now)$|outgrew\smy|have\soutgrown\smy|ADVoutgrew\smy|no\slonger\shave\s(?:an?\s|my\s)?(?:allergy\sto)?)\s?(?P<to>.*?)(?:\sallerg(?:y|ies))?$|^my\s(?P<to2>[\w-]+)\sallergy\sis\s(?:gone|over|cured)";
    NOT_ANYMORE_ALLERGIC = r"^i\sam\snot\sallergic\sto\s(.+?)\s(?:any\s?more|any\slonger)$";
    DIET = r"^(?:i|we)\s(?:(?:am|are)\s(?:now\s)?ADV(?:an?\s)?|ADV(?:became|turned|went|have\sgone|have\sbecome|have\sturned|have\sbeen)\s(?:an?\s)?)(?:strict\s|lifelong\s|committed\s|ethical\s|mostly\s|fully\s|completely\s)*(DIETS)(?-u:\b)";
    DIET_EATS = r"^(?:i|we)\s(?:ADV(?:eat|follow|keep|am\son|stick\sto|observe)\s(?:only\s)?(?:an?\s|the\s)?(?:strict\s)?)((?:DIETS|low-carb|low-sodium|low-fodmap|mediterranean|raw\sfood|sugar-free)(?:\sdiet|\sfood)?)(?-u:\b)";
    NO_EAT = r"^(?:i|we)\s(?:ADV)(?:don't|do\snot|never|can't|cannot|can\snot)\s(?:ever\s)?(?:eat|drink|consume|tolerate|touch)\s(.+)|^(?:i|we)\s(?:ADV)(?:can't|cannot|can\snot)\shave\s((?:any\s)?(?:FOODS)(?-u:\b).*)|^(?:i|we)\sADV(?:stopped|quit|gave\sup)\s(?:eating|drinking)\s(.+)";
    DIET_ENDED = r"^(?:i|we)\s(?:am\sno\slonger|am\snot|stopped\sbeing|quit\sbeing|gave\sup\sbeing)\s(?:an?\s)?(DIETS)(?P<more>.*)$";
    CONDITION = r"^i\s(?:ADV)(?:have|suffer\sfrom|live\swith|was\s(?:recently\s|just\s)?diagnosed\swith|have\sbeen\sdiagnosed\swith|got\sdiagnosed\swith|am\sdiagnosed\swith|struggle\swith|am\sliving\swith)\s(?:an?\s|some\s)?(QUALIFIED)";
    ANOTHER_CONDITION = r"^(?:,\s(?:and\s)?|\sand\s)(?:also\s)?(?:an?\s|some\s)?(QUALIFIED)";
    CONDITION_IS = r"^i\sam\s(?:an?\s)?ADV((?:type\s\d\s|type-\d\s)?(?:diabetic|asthmatic|epileptic|colou?r[\s-]?blind|deaf|hard\sof\shearing|blind|dyslexic|autistic|an(?:a)?emic|bipolar|legally\sblind|wheelchair\suser|hypertensive|immunocompromised))(?-u:\b)";
    MEDICATION = r"^i\s(?:ADV)(?:take|am\staking|am\son|use|was\s(?:recently\s)?prescribed|have\sbeen\sprescribed|got\sprescribed|started\s(?:taking|on))\s(?:my\s)?(.*(?:MEDICINES)(?-u:\b).*)";
    MEDICATION_ENDED = r"^i\s(?:ADV)(?:stopped\staking|no\slonger\stake|am\sno\slonger\s(?:taking|on)|am\soff|quit\staking|came\soff)\s(?:my\s)?(.+)";
    CONDITION_ENDED = r"^i\s(?:no\slonger\s(?:have|suffer\sfrom)|do\snot\shave|don't\shave)\s(.+?)(?P<any>\sany\s?more)?$";
    IS_BEGUN = r"(?-u:\b)(?:started|prescribed)(?-u:\b)";
    IS_MEDICINE = r"(?-u:\b)MEDICINES(?-u:\b)";
    IS_CONDITION = r"(?-u:\b)CONDITIONS(?-u:\b)";
}

pub(super) fn diet(clause: &str, out: Out<'_>) {
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
        "anymore",
        "any more",
        "again",
        "solid",
        "another",
        "right",
        "as",
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

fn retract_all(key: &str, list: &str, out: Out<'_>) {
    for value in members(list) {
        out.push(Finding::new(key, value).intent(Intent::Retract));
    }
}

pub(super) fn health(clause: &str, out: Out<'_>) {
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
    } else if clause.contains(" about ") {
        // "I have anxiety about the exam" is a mood.
    } else if let Some(found) = CONDITION.captures(clause) {
        // "I have diabetes, asthma and a bad back."
        let mut behind = &clause[found.get(0).map_or(0, |whole| whole.end())..];
        put("health.condition", tidy(&found[1], ValueType::Text), out);
        while let Some(another) = ANOTHER_CONDITION.captures(behind) {
            put("health.condition", tidy(&another[1], ValueType::Text), out);
            behind = &behind[another.get(0).map_or(0, |whole| whole.end())..];
        }
    } else if let Some(value) = group(&CONDITION_IS, clause) {
        put("health.condition", tidy(value, ValueType::Text), out);
    } else if let Some(value) = group(&MEDICATION, clause).filter(|_| !is_fleeting(clause) || IS_BEGUN.is_match(clause))
    {
        // "I'm taking ibuprofen today" is over tomorrow, "I started taking it today" is not.
        // "Metformin twice a day and lisinopril in the morning": each with its own times.
        for part in value.split(" and ").flat_map(|part| part.split(", ")) {
            if IS_MEDICINE.is_match(part) {
                put("health.medication", medicine(part), out);
            }
        }
    }
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
