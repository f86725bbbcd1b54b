//! Small talk and one-off tasks, English and Chinese.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

static SMALL_TALK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^(?:[\s,.!?~。\x{FF0C}\x{FF01}\x{FF1F}\x{FF5E}]|
        hi|hello|hey|yo|hiya|howdy|good\s(?:morning|afternoon|evening|night|day)|greetings|
        how\s(?:are|r)\s(?:you|u)(?:\sdoing)?(?:\stoday)?|how's\sit\sgoing|what's\sup|sup|how\sdo\syou\sdo|nice\sto\smeet\syou|
        thanks?(?:\syou)?(?:\s(?:so|very)\smuch)?(?:\sa\slot)?|thx|ty|cheers|much\sappreciated|appreciate\sit|
        ok(?:ay)?|k|kk|sure|yes|yeah|yep|no|nope|nah|alright|all\sright|got\sit|i\ssee|right|cool|nice|great|awesome|perfect|wow|lol|haha+|
        sounds?\sgood|makes\ssense|interesting|good\s(?:job|work|bot)|well\sdone|you\srock|bye|goodbye|see\s(?:you|ya)(?:\slater)?|later|
        good\sluck|have\sa\s(?:nice|good|great)\s(?:day|one|evening|weekend)|please|continue|go\son|go\sahead|next|more|again|test|testing|ping|
        are\syou\sthere|who\sare\syou|tell\sme\sa\sjoke|you're\swelcome|no\sproblem|there|
        that(?:'s|\sis|\swas)?\s(?:great|cool|nice|helpful|perfect|awesome|good|it|all|right|funny|amazing)|for\snow|
        你好啊?|您好|嗨|哈喽|哈罗|早上好|早安|早|晚安|晚上好|下午好|中午好|在吗|在不在|谢谢(?:你|您|啦|了)?|多谢|感谢|好的|好|好吧|好呀|嗯+|哦+|噢|行|可以|是的|对|
        不是|没事|没关系|再见|拜拜|哈哈+|呵呵+|厉害|不错|真棒|太棒了|太好了|明白了?|知道了|懂了|收到|继续|你是谁|最近怎么样|吃了吗|辛苦了|讲个笑话|
        👋|👍|🙏|😀|😊|😂
        )+$",
    )
    .expect("tested")
});

/// A text with straight apostrophes.
fn straight(text: &str) -> Cow<'_, str> {
    if text.contains('’') { text.replace('’', "'").into() } else { text.into() }
}

/// Whether a text is nothing but greeting, thanks, assent and the like.
#[must_use]
pub fn is_small_talk(text: &str) -> bool {
    let text = text.trim();
    // Small talk is short; and the pattern backtracks nowhere, but a long text need not be asked.
    text.len() <= 160 && (text.is_empty() || SMALL_TALK.is_match(&straight(text)))
}

/// Verbs whose object is a text that is not the speaker's own.
static PAYLOAD_TASK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^[\s,.!'-]*(?:(?:hi|hello|hey|please|pls|now|ok(?:ay)?|then|and|also|can\syou|could\syou|would\syou|will\syou|i\s(?:want|need|would\slike|'d\slike)\syou\sto|help\sme(?:\sto)?|just|kindly)[\s,]+)*
        (?:translate|rewrite|re-write|rephrase|paraphrase|proof\s?read|summari[sz]e|sum\sup|tl;?dr|correct(?:\sthe|\sthis|\smy)|fix\s(?:the|this|my)\s(?:grammar|spelling|sentence|text|english)|edit(?:\sthe|\sthis|\smy)|
        polish|shorten|expand\son|classify|categori[sz]e|label|extract|parse|convert|turn\s(?:this|the\sfollowing)|transcribe|tokeni[sz]e|count\s(?:the\s)?(?:words|characters)|
        repeat|say|spell|analy[sz]e\s(?:this|the\s(?:following|sentiment))|detect\sthe|determine\s(?:if|whether)|rate\s(?:this|the)|improve\s(?:this|the|my)|check\s(?:this|my|the)\s(?:grammar|sentence|text|spelling|essay)|
        (?:generate|suggest|write)\s(?:a\s|an\s|the\s|up\sto\s)?(?:short\s|concise,?\s|brief\s|broad\s|relevant\s|\d+(?:-\d+)?(?:[\s-]word)?\s)*(?:title|summary|caption|headline|tags?|keywords?|name|follow-up)|create\s(?:a\s|an\s)?(?:short\s|concise\s)*(?:title|summary)|give\s(?:this|the)\s.{0,40}title|
        what\sdoes\s.{0,60}\smean|how\s(?:do|would|can)\s(?:you|i|we)\s(?:say|translate|write|spell)|reply\sto\s(?:this|the)|respond\sto\s(?:this|the)|answer\sthis\s(?:email|mail|message)|read\s(?:this|the\sfollowing)|complete\sthe\s(?:sentence|text)|fill\sin)(?-u:\b)
        |^[\s,。\x{FF0C}]*(?:请|麻烦|帮我|帮忙|请帮我|能不能|可以|你能|可否|现在|再|把)*(?:你)?(?:帮我)?(?:把)?.{0,16}?(?:翻译|润色|改写|总结|概括|校对|摘要|缩写|扩写|纠正|仿写|分类|提取|朗读|续写|转换成|改成(?:英文|中文|被动|更))
        |^[\s,]*(?:请|帮我|请帮我|给|为)*.{0,10}(?:生成|起|取|拟|想)(?:一个|个|一)?.{0,8}(?:标题|题目|名字|摘要)",
    )
    .expect("tested")
});

/// An order to invent: what follows is said by nobody.
static FICTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)(?-u:\b)(?:(?:write|compose|create|make\sup|tell(?:\sme)?|draft|generate|continue|invent|give\sme|craft|pen)(?-u:\b).{0,40}(?-u:\b)(?:story|stories|poem|haiku|limerick|sonnet|song|lyrics|rap|novel|dialogue|scene|screenplay|script|monologue|joke|fable|fairy\stale|riddle|tweet|slogan|essay|blog\spost|speech|diary\sentry|letter|e-?mail|cover\sletter|bio|post|review|toast|sentence|sentences|example|examples|conversation|persona|profile|paragraph|caption)(?-u:\b))
        |写(?:一|首|个|段|篇|封)|编(?:一个|个|一段|故事)|创作|作一首|讲(?:一个|个)?故事|造句",
    )
    .expect("tested")
});

/// Pretence: nothing in a message with it is meant.
static PRETENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)(?-u:\b)(?:pretend|role-?\s?play|imagine|suppose|hypothetically|let's\ssay|lets\ssay|act\sas|act\slike|you\sare\snow|in\s(?:my|the|this)\s(?:novel|story|book|game|screenplay|script|movie|campaign)|my\s(?:character|protagonist|narrator)|fictional|what\sif\si|what\swould)(?-u:\b)
        |角色扮演|扮演|假装|假设|假如|设想|想象一下|如果我是|小说(?:里|中)|我的(?:角色|主角)|要是我",
    )
    .expect("tested")
});

/// Other one-off requests: they ask for a thing to be made or done, once.
static ONE_OFF: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?xi)^[\s,.!'-]*(?:(?:hi|hello|hey|please|pls|now|ok(?:ay)?|then|and|also|can\syou|could\syou|would\syou|will\syou|i\s(?:want|need|would\slike|'d\slike)\syou\sto|help\sme(?:\sto)?|just|kindly)[\s,]+)*
        (?:write|compose|generate|create|draw|make|build|implement|code|refactor|debug|fix|calculate|compute|solve|format|sort|list|convert|explain|define|describe|draft|design|print|show|run|find|search|look\sup|give\sme|tell\sme|what\sis|what's|what\sare|who\sis|who\swas|when\s(?:is|was|did)|where\sis|how\s(?:do|does|many|much|far|long|tall|old)|why\s(?:is|do|does|are))(?-u:\b)
        |^[\s,。\x{FF0C}]*(?:请|麻烦|帮我|帮忙|请帮我|能不能|可以|你能|给我|替我)*(?:写|画|算|计算|生成|列出|列|解释|介绍|查|搜索|实现|调试|什么是|谁是|多少|为什么|怎么)",
    )
    .expect("tested")
});

/// Whether a text begins with a verb whose object is a text that is not the speaker's own ("translate", "总结").
#[must_use]
pub fn is_payload_task(text: &str) -> bool {
    starts_with_payload_task(text)
}

pub(in crate::memory::segment) fn starts_with_payload_task(text: &str) -> bool {
    PAYLOAD_TASK.is_match(without_heading(text))
}

/// A text without the heading under which apps put their own tasks ("### Task:", as Open WebUI's calls for titles, tags and the next questions
/// begin).
fn without_heading(text: &str) -> &str {
    static HEADING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)^\s*#{1,6}[ \t]*(?:task|instructions?|任务)[ \t]*[:\x{FF1A}]?[ \t]*(?:\r?\n\s*|$)")
            .expect("tested")
    });
    HEADING.find(text).map_or(text, |heading| &text[heading.end()..])
}

/// Whether the speaker asks for invention, so that "I" in it is nobody.
#[must_use]
pub(crate) fn is_fiction(text: &str) -> bool {
    FICTION.is_match(text) || PRETENCE.is_match(text)
}

/// Where an order to invent begins.
pub(crate) fn fiction_at(text: &str) -> Option<usize> {
    FICTION.find(text).map(|found| found.start())
}

/// Whether a text pretends, so that nothing in it is meant.
pub(crate) fn is_pretence(text: &str) -> bool {
    PRETENCE.is_match(text)
}

/// Whether a text is a utility request that leaves nothing to remember: a translation, a title, a calculation, code.
#[must_use]
pub fn is_one_off_task(text: &str) -> bool {
    let text = without_heading(text);
    let head = super::sentences(text).next().map_or("", |s| s.text);
    if starts_with_payload_task(head) {
        return true;
    }
    if !(ONE_OFF.is_match(head) || is_fiction(head)) {
        return false;
    }
    // "Explain X" with a word about oneself is a matter of one's own.
    let personal =
        text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’').any(|w| {
            w == "I"
                || ["my", "our", "we", "mine", "ours", "i'm", "i’m", "i've"].iter().any(|p| w.eq_ignore_ascii_case(p))
        }) || text.replace("帮我", "").replace("给我", "").replace("告诉我", "").replace("替我", "").contains('我');
    !personal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_talk_is_small_talk() {
        for text in [
            "Hi!",
            "Hello, how are you?",
            "thanks a lot!",
            "ok, sounds good",
            "你好",
            "谢谢你!",
            "好的,明白了",
            "👍",
            "",
        ] {
            assert!(is_small_talk(text), "{text}");
        }
        for text in ["Hi, I live in Oslo", "你好,我住在上海", "No, it's Berlin", "thanks for the peanut recipe"]
        {
            assert!(!is_small_talk(text), "{text}");
        }
    }

    #[test]
    fn tasks_are_told_from_statements() {
        for text in [
            "Translate to French: I am allergic to nuts",
            "please summarise the text below",
            "write a haiku about the sea",
            "What is the capital of France?",
            "把这句话翻译成英文:我住在上海",
            "帮我写一首关于春天的诗",
            "Generate a concise title for the conversation",
            "### Task:\nGenerate a concise, 3-5 word title with an emoji for the chat history.\n<chat_history>USER: I live in Oslo</chat_history>",
            "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history",
            "### Task:\nSuggest 3-5 relevant follow-up questions that the user might naturally ask next",
        ] {
            assert!(is_one_off_task(text), "{text}");
        }
        for text in ["I live in Oslo", "我住在上海", "Plan my trip to Rome, I am vegan", "My order number is 12"] {
            assert!(!is_one_off_task(text), "{text}");
        }
    }
}
