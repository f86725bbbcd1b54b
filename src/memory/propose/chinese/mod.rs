//! The Chinese rules: a sentence is cut at its commas, a missing subject is put back, and each clause is matched against
//! what people say of themselves. Questions, conditions, hearsay and jokes are passed over.
//!
//! Nothing is decided here: what is found is a candidate, and the gate has the next word.

mod request;
mod rules;

use std::sync::LazyLock;

use regex::Regex;

use super::{Finding, standing_facet};
use crate::memory::candidate::Intent;
use crate::memory::schema::KeySchema;
use crate::memory::segment::Sentence;
use crate::memory::text::simplified;

pub(super) use request::is_request;

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("tested"));)*
    };
}

patterns! {
    LEAD = r"^(?:你好|您好|嗨|哈喽|对了|另外|其实|实际上|事实上|顺便(?:说|提)(?:一下|一句)?|还有|而且|所以|因为|由于|那么|嗯|哦|不过|但是|但|并且|同时|然后|不对|不是的|不,|说错了|更正(?:一下)?|更新一下|说实话|考虑到|既然|首先|总之|补充(?:一下|一点)?|跟你说(?:一下)?|告诉你|我想告诉你|你要知道|温馨提示|请注意|提醒一下)[\s,:\x{FF0C}\x{FF1A}]*";
    CHANGE_LEAD = r"^(?:其实|实际上|事实上|不对|不是的|说错了|更正|更新)";
    QUESTION = r"[吗么?\x{FF1F}]$|什么|怎么|哪(?:里|儿|个|些|种|家|款|位|天|年)|谁|多少|几点|几个|为什么|为何|如何|能不能|可不可以|是不是|有没有|要不要|会不会|该不该|好不好|吗|^(?:请问|求|推荐|有啥|给我|帮我|能否|是否)";
    DOUBT = r"如果|假如|假设|要是|倘若|万一|可能|也许|大概|好像|似乎|应该是|想要|打算|准备|计划|考虑|他说|她说|他们说|别人说|[友事板妈爸婆公生师弟妹哥姐]说|说我|建议我|劝我|听说|据说|有人|想成为|希望|恨不得|差点|梦见|梦到|假装|比如说?我|我觉得我|我猜|怀疑";
    FORMERLY = r"曾经|以前|从前|小时候|过去|当时";
    BY_NOW = r"^(?:现在|如今|目前|后来)";
    FLEETING = r"今天|明天|后天|昨天|今晚|明晚|昨晚|这周|这个?星期|本周|这个?周末|暂时|临时|这几天|这两天|这段时间|出差|旅游|旅行|度假|下周|下个?月|下个?星期|一会儿?|待会|这次|刚才|刚刚(?:吃|喝|看)|几天|一天|两天|三天|一周|两周";
    FLEETING_CHANGE = r"暂时|临时|出差|旅游|旅行|度假|下周|下个?月|明天|后天|几天|一天|两天|三天|一周|两周";
    IRONY = r"才怪|开玩笑|逗你|骗你|反话|狗头|🙄|呵呵|真是太棒了呢";
    WHEN_BEFORE = r"^(?:上个?月|上周|去年|前年|今年|最近|前几天|前阵子|前段时间|现在|目前|已经)[,\x{FF0C}]?我";
    SHARED = r"^(?:现在|如今|目前|一直|也|还|平时|最近|刚|刚刚|已经)?(?:住在|居住在|家在|名字(?:叫|是)|(?:在|每天|每晚|长期)(?:吃|服用|打|注射)|在.{1,16}(?:工作|上班|任职|当|做|担任)|对.{1,12}过敏|不?喜欢|最?喜欢|讨厌|爱(?:吃|喝|看|听|好)|不吃|不能吃|不喝|吃素|搬到|搬去|搬家到|跳槽|入职|叫|名叫|来自|养了|有.{0,3}(?:糖尿病|高血压|哮喘)|患有|生日是|订单号|手机号|电话|邮箱|新?(?:地址|住址)(?:是|改)|用的?是|是(?:一名|一个|一位|名|个|位)|不再)";
}

/// One clause in the form that the rules read, and its words as they stand in the sentence.
#[derive(Debug)]
struct Clause<'a> {
    text: String,
    quote: &'a str,
    question: bool,
    change: bool,
}

/// Finds what a sentence says, and the words that say it.
pub(super) fn find<'a>(sentence: Sentence<'a>, schema: &KeySchema, out: &mut Vec<(Finding, &'a str)>) {
    let simple: String = sentence.text.chars().map(simplified).collect();
    if simple == sentence.text {
        return find_simplified(sentence, schema, out);
    }
    // The rules read simplified characters, one for one; values and quotes are kept as they were written.
    let mut found = Vec::new();
    find_simplified(Sentence { text: &simple, question: sentence.question }, schema, &mut found);
    for (mut finding, quote) in found {
        let Some(quote) = as_written(quote, &simple, sentence.text) else { continue };
        if let Some(text) = finding.value.as_str() {
            finding.value = written_value(text, &simple, sentence.text).into();
        }
        out.push((finding, quote));
    }
}

/// The words of `written` that stand where `part` stands in its simplified form.
fn as_written<'w>(part: &str, simple: &str, written: &'w str) -> Option<&'w str> {
    let start = simple[..simple.find(part)?].chars().count();
    let mut ends = written.char_indices().map(|(at, _)| at).chain([written.len()]);
    let from = ends.nth(start)?;
    let to = if part.is_empty() { from } else { ends.nth(part.chars().count() - 1)? };
    Some(&written[from..to])
}

/// A value as it was written; of one that we put together ("讨厌香菜") the part that was.
fn written_value(value: &str, simple: &str, written: &str) -> String {
    for (at, _) in value.char_indices().take(5) {
        if let Some(tail) = as_written(&value[at..], simple, written) {
            return format!("{}{tail}", &value[..at]);
        }
    }
    value.to_owned()
}

fn find_simplified<'a>(sentence: Sentence<'a>, schema: &KeySchema, out: &mut Vec<(Finding, &'a str)>) {
    if IRONY.is_match(sentence.text) {
        return;
    }
    if let Some(request) = request::request(sentence.text) {
        request::find(&request, sentence.text, schema, out);
        return;
    }
    let clauses = clauses(sentence.text);
    let count = clauses.len();
    for (index, clause) in clauses.into_iter().enumerate() {
        if clause.question || (sentence.question && index + 1 == count) {
            continue;
        }
        for finding in statements(&clause.text, clause.change) {
            out.push((finding, clause.quote));
        }
    }
}

/// Whom a sentence speaks of when that is not its speaker, nor the speaker among others.
pub(super) fn speaks_of(sentence: &str) -> Option<String> {
    rules::as_first_person(sentence).and_then(|(about, _)| about)
}

/// Whether the clause with the value in it states it; `passing` = a time that passes makes it untrue.
pub(super) fn states(sentence: &str, value: &str, passing: bool) -> bool {
    let all = clauses(sentence);
    let found = all.iter().find(|clause| clause.text.to_lowercase().contains(value));
    match found {
        Some(clause) => {
            let denied = clause.text.contains("不过敏") || clause.text.contains("没有") || clause.text.contains("不是");
            !(clause.question || denied || IRONY.is_match(sentence) || (passing && is_fleeting(&clause.text)))
        }
        None => !(DOUBT.is_match(sentence) || FORMERLY.is_match(sentence) || IRONY.is_match(sentence)),
    }
}

fn clauses(sentence: &str) -> Vec<Clause<'_>> {
    let mut out: Vec<Clause<'_>> = Vec::new();
    let mut first_person = false;
    let (mut condition, mut formerly) = (false, false);
    for piece in sentence.split([',', '\u{ff0c}', ';', '\u{ff1b}']) {
        let (text, change) = strip_lead(piece);
        if text.is_empty() {
            continue;
        }
        // A condition colours the clauses that depend on it: "如果我吃素,我会…".
        condition |= DOUBT.is_match(text);
        // So does what was once, until a clause says how it is now: "我以前住在北京,现在住在上海".
        formerly = FORMERLY.is_match(text) || formerly && !BY_NOW.is_match(text);
        let own = text.starts_with(['我', '咱']);
        let shared = first_person && !own && !text.starts_with("叫我") && SHARED.is_match(text);
        first_person = (own && !rules::is_about_another(text)) || shared;
        let question = QUESTION.is_match(text) || condition || formerly;
        let full = if shared { format!("我{text}") } else { text.to_owned() };
        out.push(Clause { text: full, quote: text, question, change });
    }
    out
}

fn strip_lead(piece: &str) -> (&str, bool) {
    let mut rest = piece.trim();
    let mut change = false;
    for _ in 0..4 {
        let Some(lead) = LEAD.find(rest) else { break };
        change |= CHANGE_LEAD.is_match(rest);
        rest = rest[lead.end()..].trim_start();
    }
    // "上个月我搬到…" says "我上个月搬到…".
    if let Some(when) = WHEN_BEFORE.find(rest) {
        rest = &rest[when.end() - '我'.len_utf8()..];
    }
    (rest, change)
}

/// What one clause says.
fn statements(clause: &str, change: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if DOUBT.is_match(clause) || FORMERLY.is_match(clause) {
        return found;
    }
    match rules::as_first_person(clause) {
        Some((about, first_person)) => {
            rules::find(&first_person, &mut found);
            for finding in &mut found {
                finding.about.clone_from(&about);
            }
        }
        None => rules::find(clause, &mut found),
    }
    if found.is_empty() {
        standing(clause, &mut found);
    }
    if change {
        for finding in &mut found {
            if finding.intent == Intent::State {
                finding.intent = Intent::Change;
            }
        }
    }
    found
}

patterns! {
    LASTING_ORDER = r"^(?:请|麻烦)?(?:你)?(?:以后|今后|从现在起|从今以后|从今往后|每次|总是|一律|永远)";
}

fn standing(clause: &str, out: &mut Vec<Finding>) {
    if LASTING_ORDER.is_match(clause)
        && let Some(facet) = standing_facet(clause)
    {
        let bare = LASTING_ORDER.replace(clause, "");
        out.push(
            Finding::new("instruction.standing", bare.trim_start_matches(['都', '请', '\u{ff0c}', ','])).tag(facet),
        );
    }
}

/// Whether a clause is about a time that passes.
fn is_fleeting(clause: &str) -> bool {
    FLEETING.is_match(clause)
}

fn is_fleeting_change(clause: &str) -> bool {
    FLEETING_CHANGE.is_match(clause)
}
