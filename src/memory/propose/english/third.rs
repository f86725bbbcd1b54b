//! Other people: "my brother Tom is allergic to shellfish" read as "I am allergic to shellfish", about "brother Tom".

use std::sync::LazyLock;

use regex::Regex;

static THIRD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^(?:my|our)\s(?P<rel>(?:(?:older|younger|elder|little|big|twin|eldest|youngest|step|best|close|good|new|former|late|ex-?|great-?|co-?|\d+[\s-]year[\s-]old)[\s-]?)*(?:wife|husband|spouse|partner|fiance|fiancee|fiancé|fiancée|girlfriend|boyfriend|mother|mom|mum|mommy|mummy|father|dad|daddy|hubby|wifey|granny|nan|parents|brother|sister|son|daughter|child|kid|kids|children|baby|toddler|aunt|uncle|cousin|niece|nephew|grandmother|grandma|grandfather|grandpa|granddaughter|grandson|mother-in-law|father-in-law|sister-in-law|brother-in-law|in-laws|friend|friends|boss|manager|colleague|coworker|co-worker|roommate|flatmate|neighbou?r|client|customer|teammate|mentor|teacher|student|doctor|dog|cat|puppy|kitten|parrot|rabbit|hamster|horse|pet))
        (?:,?\s(?P<name>(?-i:[\p{Lu}][\p{L}'-]+(?:\s[\p{Lu}][\p{L}'-]+)?)),?)?
        (?P<and>\sand\sI)?
        \s(?P<verb>is\snot|isn't|is|are|has|have|had|was|loves?|likes?|hates?|prefers?|enjoys?|dislikes?|adores?|lives?|works?|takes?|uses?|drives?|speaks?|suffers?|moved|joined|sold|can't|cannot|can\snot|doesn't|does\snot|don't|do\snot|never|no\slonger|became|goes|went|plays?|owns?|eats?|still\s\w+|just\smoved|recently\smoved|also\s\w+|really\s\w+|absolutely\s\w+|now\s\w+)\s(?P<rest>.+)$",
    )
    .expect("tested")
});
/// "Mum has arthritis": whose mother it is need not be said.
static BARE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:mum|mom|mommy|mummy|dad|daddy|mother|father|grandma|grandpa|granny|nan|hubby|wifey)\s")
        .expect("tested")
});
/// A second verb of the same person: "my boss lives in Denver and hates phone calls"; or a second adjective, "is vegan and allergic to nuts".
static SHARED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:,\s*|\s)(?:and|but)\s(?P<next>(?:also\s|now\s|really\s)?(?:lives|works|loves|likes|hates|prefers|enjoys|dislikes|has|is|takes|uses|drives|speaks|eats|can't|cannot|doesn't|never)\s.+|(?P<adjective>(?:also\s|severely\s)?(?:allergic\sto|vegan|vegetarian|pescatarian|diabetic|asthmatic|c(?:o)?eliac|lactose|gluten)(?-u:\b).*))$").expect("tested")
});
static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:my|our)\s(?P<who>.{2,40}?)\s(?:(?P<be>is|are)|has|have|lives|works|loves|likes|hates|prefers|enjoys|dislikes|takes|uses|drives|speaks|eats|can't|cannot|doesn't|never|moved|also|now|still|really)\s").expect("tested")
});

/// The clauses of a sentence about one other person, each with its subject.
pub(super) fn each_with_subject(clause: &str) -> Option<(String, String)> {
    let subject = SUBJECT.captures(clause)?;
    let shared = SHARED.captures(clause)?;
    let at = shared.get(0).expect("group 0 is the match").start();
    let be = match shared.name("adjective") {
        Some(_) => format!("{} ", subject.name("be")?.as_str()),
        None => String::new(),
    };
    Some((clause[..at].to_owned(), format!("my {} {be}{}", &subject["who"], &shared["next"])))
}

static POSSESSIVE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?xi)^(?:my|our)\s(?P<rel>(?:(?:older|younger|elder|little|big|best|ex-?)\s)?[a-z-]+)(?:\s(?P<name>(?-i:\p{Lu}\p{L}+)))?'s\s(?P<rest>(?:birthday|e-?mail|email\saddress|phone|phone\snumber|number|favou?rite\s\w+|pronouns|address|job|order\snumber|time\s?zone|allergies)(?:\s\w+)?\s(?:is|are)\s.+)$")
        .expect("tested")
});

/// The clause as its subject would say it, and who that is.
pub(super) fn as_first_person(clause: &str) -> Option<(String, String)> {
    let owned;
    let clause =
        if ["my ", "our "].iter().any(|p| clause.get(..p.len()).is_some_and(|head| head.eq_ignore_ascii_case(p))) {
            clause
        } else if BARE.is_match(clause) {
            owned = format!("my {clause}");
            &owned
        } else {
            return None;
        };
    if let Some(found) = POSSESSIVE.captures(clause) {
        let about = who(&found["rel"], found.name("name").map(|m| m.as_str()));
        return Some((about, format!("my {}", &found["rest"])));
    }
    let found = THIRD.captures(clause)?;
    let rest = &found["rest"];
    let verb = found["verb"].to_lowercase();
    let lower = rest.to_lowercase();
    // Their name is a fact about the speaker's family.
    if matches!(verb.as_str(), "is" | "are") && (lower.starts_with("called ") || lower.starts_with("named ")) {
        return None;
    }
    let first = match verb.as_str() {
        "is" | "are" => "am".to_owned(),
        "isn't" | "is not" => "am not".to_owned(),
        "has" => "have".to_owned(),
        "doesn't" | "does not" => "do not".to_owned(),
        "goes" => "go".to_owned(),
        other => {
            let (adverb, verb) = other.rsplit_once(' ').map_or(("", other), |(a, v)| (a, v));
            let bare = if verb == "is" {
                "am"
            } else if verb == "has" {
                "have"
            } else if verb.len() > 3 && verb.ends_with('s') && !verb.ends_with("ss") {
                &verb[..verb.len() - 1]
            } else {
                verb
            };
            if adverb.is_empty() { bare.to_owned() } else { format!("{adverb} {bare}") }
        }
    };
    if found.name("and").is_some() {
        return Some((WE.to_owned(), format!("I {first} {rest}")));
    }
    Some((who(&found["rel"], found.name("name").map(|m| m.as_str())), format!("I {first} {rest}")))
}

/// The speaker is one of them.
const WE: &str = "we";

pub(super) fn is_we(about: &str) -> bool {
    about == WE
}

fn who(relation: &str, name: Option<&str>) -> String {
    let relation = relation.trim().to_lowercase();
    name.map_or(relation.clone(), |name| format!("{relation} {name}"))
}
