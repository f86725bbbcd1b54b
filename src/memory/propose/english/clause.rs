//! Clauses: the parts of a sentence that each say one thing.

use std::sync::LazyLock;

use regex::Regex;

/// One clause, in the form that the rules read.
#[derive(Debug)]
pub(super) struct Clause<'a> {
    /// With straight apostrophes, "I'm" as "I am", leading particles gone, and a missing subject put back.
    pub(super) text: String,
    /// The words as they stand in the sentence.
    pub(super) quote: &'a str,
    /// Whether it asks something.
    pub(super) question: bool,
    /// Whether it says that something changed ("actually", "now").
    pub(super) change: bool,
}

static BREAK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)(?:\s*[,;:\u{2013}\u{2014}]\s*|\s+-\s+|\s+|^)(?:(?:and|&|but|so|because|since|though|although|also|plus|while|yet|or|as|that)\s+)*
        (?P<next>(?:now\s+)?(?:i|im|ive|i['’]m|i['’]ve|my|we|we['’]re|our|what|where|which|who|when|how|why|can\syou|could\syou|can\si|could\si|should\si|would\syou|do\syou|you\scan\s(?:reach|e-?mail|call|text|contact)|am\si|everyone|everybody|people|friends|most\speople|is|are|does|do|did|should|any|which|please|call\sme|remember)(?-u:\b))",
    )
    .expect("tested")
});
/// What follows from a statement is another one: "I'm vegan, so skip the milk tomorrow".
static SO: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i),\s+(?:so|hence|therefore|which means)(?:\s|,\s)+").expect("tested"));
static CONJUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:[,;&]|(?-u:\b)(?:and|but|so|because|since|though|although|plus|yet)(?-u:\b))").expect("tested")
});
/// A second verb or adjective for the same subject: "I'm vegan and allergic to nuts".
static SHARED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)(?:,\s*|\s+)(?:and\s+|but\s+)(?:i\s+)?(?P<next>(?:(?:now|also|recently|just|currently|severely|really|still)\s+)*(?:(?P<verb>live|work|love|hate|like|prefer|enjoy|use|drive|have|take|speak|moved|don['’]t|do\snot|can['’]t|cannot|never)|(?P<adjective>allergic\sto|vegan|vegetarian|pescatarian|diabetic|lactose|gluten|based\sin|no\slonger))(?-u:\b))",
    )
    .expect("tested")
});

static LEAD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^(?:(?:hi|hello|hey|hey\sthere|hi\sthere|hiya|yo|dude|man|guys|folks|hi\sall|good\s(?:morning|evening|afternoon)|morning|ugh|argh|omg|lol|hmm+|meh|damn|wow|tbh|ngl|imo|right|anyways?|ps|p\.s\.?|oh|ah|well|so|ok|okay|yes|yeah|yep|sure|thanks|thank\syou|great|cool|btw|by\sthe\sway|fyi|also|and|but|because|since|as|that|given\sthat|anyway|besides|plus|look|listen|honestly|
        just\sso\syou\sknow|jsyk|(?:just\s)?(?:a\s)?(?:quick\s|small\s|little\s)?(?:heads?[\s-]up|reminder|thing|note|fyi|bit\sof\s(?:background|context))|in\s(?:this|our|my|the)\s(?:repo|repository|project|team|company|codebase|code\sbase|office|monorepo|app|stack)|at\s(?:my|our)\s(?:company|work|job|office)|at\swork|for\s(?:your\sinformation|the\srecord|context|reference|future\sreference)|in\scase\sit\shelps|one\smore\sthing|quick\s(?:note|update|question)|first\sof\sall|in\sgeneral|generally|personally|to\sbe\sclear|
        (?:i\s)?(?:should|forgot\sto|wanted\sto|want\sto)\s(?:mention|say|tell\syou|let\syou\sknow|add)(?:\sthat)?|i\s(?:just\s|recently\s)?(?:found\sout|learned|learnt|discovered|realised|realized)(?:\sthat)?|you\sshould\sknow(?:\sthat)?|keep\sin\smind|it\sturns\sout(?:\sthat)?|turns\sout(?:\sthat)?|
        as\syou\sknow|i(?:['’]ve|\shave)?\s(?:already\s)?told\syou(?:\sthat)?|like\si\ssaid|as\si\ssaid|the\sthing\sis|unfortunately|luckily|sadly|good\snews|news|update|correction|actually|no|nope|sorry|wait|not\sanymore|these\sdays|nowadays|now|currently|as\sof\s(?:today|now|last\s\w+))(?:\s*[,:!.\u{2013}\u{2014}-]+\s*|\s+))",
    )
    .expect("tested")
});
static CHANGE_LEAD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^(?:actually|no|nope|sorry|wait|correction|update|these days|nowadays|now|currently|as of)(?-u:\b)",
    )
    .expect("tested")
});
static QUESTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:what|where|which|who|whose|when|how|why|can|could|should|would|do|does|did|is|are|am i|will|may|any (?:ideas|suggestions|tips)|have you|has)(?-u:\b)").expect("tested")
});

/// Cuts a sentence into clauses.
pub(super) fn clauses(sentence: &str) -> Vec<Clause<'_>> {
    let mut starts = vec![0];
    for found in BREAK.captures_iter(sentence) {
        let whole = found.get(0).expect("group 0 is the match");
        let next = found.name("next").expect("always part of the match").start();
        let between = &sentence[whole.start()..next];
        // "the city I live in" is no new clause: it takes a comma or a conjunction.
        if next > 0 && CONJUNCTION.is_match(between)
            || between.contains([',', ';', ':', '\u{2013}', '\u{2014}'])
            || between.contains(" - ")
        {
            starts.push(next);
        }
    }
    starts.extend(SO.find_iter(sentence).map(|so| so.end()));
    starts.sort_unstable();
    starts.dedup();
    let mut out = Vec::new();
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(sentence.len());
        let piece = trim_tail(&sentence[start..end]);
        if piece.is_empty() {
            continue;
        }
        push(piece, &mut out);
    }
    out
}

/// Leaves out the conjunction that leads to the next clause.
fn trim_tail(piece: &str) -> &str {
    let mut piece = piece.trim();
    loop {
        let cut = piece.trim_end_matches([',', ';', ':', '-', '&', '\u{2013}', '\u{2014}', ' ']);
        let lower = cut.to_ascii_lowercase();
        let word = [
            "and", "but", "so", "because", "since", "though", "although", "also", "plus", "while", "yet", "or", "as",
            "that",
        ]
        .iter()
        .find(|w| lower.ends_with(&format!(" {w}")));
        match word {
            Some(word) => piece = &cut[..cut.len() - word.len()],
            None => return cut,
        }
    }
}

fn push<'a>(piece: &'a str, out: &mut Vec<Clause<'a>>) {
    let (lead, change) = strip_lead(piece);
    let text = plain(lead);
    let question = QUESTION.is_match(&text);
    // The quote keeps the words that belong to the statement, not "well, …" before it.
    let mut quote = &piece[piece.len() - lead.len()..];
    let lower = text.to_ascii_lowercase();
    if (lower.starts_with("i ") || lower.starts_with("we "))
        && let Some(shared) = SHARED.captures(quote)
    {
        let next = shared.name("next").expect("always part of the match");
        let whole = shared.get(0).expect("group 0 is the match");
        let first = &quote[..whole.start()];
        let rest = &quote[next.start()..];
        let subject = match shared.name("verb") {
            Some(_) => "I ",
            None if lower.starts_with("i am ") => "I am ",
            None => "",
        };
        // "I love coffee and hate tea" shares; "a company I like and use" would not have come here.
        if !subject.is_empty() {
            out.push(Clause { text: plain(first), quote: first, question, change });
            push_shared(subject, rest, question, change, out);
            return;
        }
    }
    quote = quote.trim();
    out.push(Clause { text, quote, question, change });
}

fn push_shared<'a>(subject: &str, rest: &'a str, question: bool, change: bool, out: &mut Vec<Clause<'a>>) {
    let (rest, more) = match SHARED.captures(rest) {
        Some(shared) => {
            let whole = shared.get(0).expect("group 0 is the match");
            let next = shared.name("next").expect("always part of the match");
            let subject = if shared.name("verb").is_some() { "I " } else { "I am " };
            (&rest[..whole.start()], Some((subject, &rest[next.start()..])))
        }
        None => (rest, None),
    };
    out.push(Clause { text: format!("{subject}{}", plain(rest)), quote: rest, question, change });
    if let Some((subject, more)) = more {
        push_shared(subject, more, question, change, out);
    }
}

/// Takes particles off the front; whether one of them announces a change.
fn strip_lead(piece: &str) -> (&str, bool) {
    let mut rest = piece.trim();
    let mut change = false;
    if rest.get(..11).is_some_and(|head| head.eq_ignore_ascii_case("as someone ")) {
        return (rest, false);
    }
    for _ in 0..6 {
        let Some(lead) = LEAD.find(rest) else { break };
        if lead.end() >= rest.len() {
            break;
        }
        change |= CHANGE_LEAD.is_match(lead.as_str());
        rest = rest[lead.end()..].trim_start();
    }
    (rest, change)
}

/// Straight apostrophes, and the subject's contractions written out.
pub(super) fn plain(text: &str) -> String {
    let text = respelled(&text.trim().replace(['’', '‘'], "'"));
    // Of two that begin alike, the longer one comes first.
    for (short, long) in [
        ("i'm ", "I am "),
        ("im ", "I am "),
        ("we're ", "we are "),
        ("we've ", "we have "),
        ("i've got ", "I have "),
        ("ive got ", "I have "),
        ("i have got ", "I have "),
        ("i've ", "I have "),
        ("ive ", "I have "),
        ("i'd ", "I would "),
        ("i'll ", "I will "),
        ("i cant ", "I can't "),
        ("i dont ", "I don't "),
        ("i ", "I "),
        ("name's ", "my name is "),
        ("my name's ", "my name is "),
        ("as someone with ", "I have "),
        ("as someone who has ", "I have "),
        ("as someone who is ", "I am "),
        ("as someone allergic to ", "I am allergic to "),
    ] {
        if let Some(head) = text.get(..short.len())
            && head.eq_ignore_ascii_case(short)
        {
            return format!("{long}{}", &text[short.len()..]);
        }
    }
    text
}

/// Words that are often misspelt, where a rule hangs on them. What is kept as a value stays as it was written.
const MISSPELT: [(&str, &str); 14] = [
    ("alergic", "allergic"),
    ("allergc", "allergic"),
    ("allegic", "allergic"),
    ("alergy", "allergy"),
    ("vegitarian", "vegetarian"),
    ("vegeterian", "vegetarian"),
    ("vegatarian", "vegetarian"),
    ("diabetis", "diabetes"),
    ("diabeties", "diabetes"),
    ("favorit", "favorite"),
    ("prefered", "preferred"),
    ("adress", "address"),
    ("bday", "birthday"),
    ("b-day", "birthday"),
];

fn respelled(text: &str) -> String {
    let mut text = text.to_owned();
    for (wrong, right) in MISSPELT {
        if let Some(at) = text.to_ascii_lowercase().find(wrong)
            && !text[at + wrong.len()..].starts_with(char::is_alphanumeric)
            && !text[..at].ends_with(char::is_alphanumeric)
        {
            text.replace_range(at..at + wrong.len(), right);
        }
    }
    text
}

static DOUBTFUL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)(?-u:\b)(?:if|unless|would|might|maybe|perhaps|probably|possibly|wish|hope|used\sto|thought|guess|almost|pretend|imagine|supposedly|in\smy\s(?:dream|novel|story)|hypothetical(?:ly)?|what\sif|wonder(?:ing)?|not\ssure|considering|thinking\s(?:of|about)|planning|plan\sto|want\sto|going\sto|gonna|as\sa\s(?:kid|child|joke)|when\si\swas|in\sthe\spast|years\sago|back\sthen|feel\slike|sounds\slike|someone|somebody|he\ssaid|she\ssaid|they\ssaid|told\sme|says\sthat|asked\sme|said\sthat)(?-u:\b)
        |^i\s(?:think|believe|suspect)\s",
    )
    .expect("tested")
});

/// Whether a clause is a condition, a wish, a memory, a report or a guess.
pub(super) fn is_doubtful(clause: &str) -> bool {
    DOUBTFUL.is_match(clause)
}

static COLOURS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:if|unless|suppose|imagine|pretend|assuming|assume|whether|i wish|i hope)(?-u:\b)|(?-u:\b)(?:said|says|told me|told us|claims?|claimed|thinks|believes|wrote|writes|asked|swears|keeps saying|according to|quote)(?-u:\b)").expect("tested")
});

/// Whether a clause makes hearsay or a condition of those that follow it.
pub(super) fn colours(clause: &str) -> bool {
    COLOURS.is_match(clause)
}

static FLEETING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)(?-u:\b)(?:for\snow|for\sthe\s(?:moment|time\sbeing|weekend|week|next|summer|winter|day|night|rest\sof)|for\s(?:an?|one|two|three|four|five|six|\d+|a\sfew|a\scouple\sof|some)\s(?:more\s)?(?:days?|weeks?|hours?|nights?|minutes?)|temporarily|temporary|just\sfor|until\s(?:mon|tue|wed|thu|fri|sat|sun|next|tomorrow|the|i)\w*|on\s(?:a\s)?(?:vacation|holiday|business\strip|business)|visiting|next\s(?:week|month|year|weekend)|tomorrow|tonight)(?-u:\b)",
    )
    .expect("tested")
});
static MOMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?xi)(?-u:\b)(?:today|this\s(?:week|weekend|morning|afternoon|evening|month|time|summer|winter|trip|semester)|right\snow|at\sthe\smoment|yesterday|last\snight|this\sonce)(?-u:\b)").expect("tested")
});

/// Whether a clause is about a time that passes.
pub(super) fn is_fleeting(clause: &str) -> bool {
    FLEETING.is_match(clause) || MOMENT.is_match(clause)
}

/// The same for a change: "I moved to Rome this week" lasts, "I moved to Rome for a week" does not.
pub(super) fn is_fleeting_change(clause: &str) -> bool {
    FLEETING.is_match(clause)
}
