//! What people call the keys of the schema: by these words a question finds a fact.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::memory::text::{self, TermId};

/// Words for all keys with one beginning.
struct Label {
    prefix: &'static str,
    /// English words that ask for it by themselves.
    asks: &'static str,
    /// English words that ask for it only when the speaker is meant ("my", "I").
    of_me: &'static str,
    /// Chinese words that ask for it.
    chinese: &'static [&'static str],
}

/// By prefix; the longest that fits a key counts.
const LABELS: &[Label] = &[
    Label {
        prefix: "identity.name",
        asks: "",
        of_me: "name call",
        chinese: &["我叫什么", "我的名字", "我是谁", "叫我"],
    },
    Label {
        prefix: "identity.birthday",
        asks: "birthday birthdate",
        of_me: "born age old zodiac",
        chinese: &["生日", "出生", "几岁", "多大", "年龄", "星座"],
    },
    Label { prefix: "identity.pronouns", asks: "pronoun", of_me: "gender", chinese: &["性别"] },
    Label {
        prefix: "contact.email",
        asks: "",
        of_me: "email mail contact reach",
        chinese: &["邮箱", "电邮", "邮件地址", "联系方式"],
    },
    Label {
        prefix: "contact.phone",
        asks: "",
        of_me: "phone number mobile contact call reach",
        chinese: &["电话", "手机号", "联系方式", "号码"],
    },
    Label {
        prefix: "location.home",
        asks: "nearby neighborhood neighbourhood weather",
        of_me: "live home address city town move moved house apartment local near from country residence area stay",
        chinese: &["住在", "住哪", "我住", "住址", "地址", "家在", "哪个城市", "天气", "附近", "本地", "搬家", "搬到"],
    },
    Label {
        prefix: "location.work",
        asks: "commute",
        of_me: "office workplace work commute",
        chinese: &["办公室", "上班地点", "在哪上班", "在哪里上班", "公司地址", "通勤"],
    },
    Label {
        prefix: "language.preferred",
        asks: "",
        of_me: "language speak answer reply",
        chinese: &["什么语言", "说哪种", "语言"],
    },
    Label {
        prefix: "time.zone",
        asks: "timezone",
        of_me: "zone clock meeting schedule call",
        chinese: &["时区", "几点开会"],
    },
    Label {
        prefix: "work.employer",
        asks: "employer",
        of_me: "work job company employ employed boss career office colleague",
        chinese: &["公司", "工作单位", "在哪工作", "在哪里工作", "上班", "雇主", "就职"],
    },
    Label {
        prefix: "work.role",
        asks: "",
        of_me: "job role title work profession occupation position career living resume cv",
        chinese: &["职位", "职业", "什么工作", "做什么的", "岗位", "简历"],
    },
    Label { prefix: "work.", asks: "", of_me: "work job career team", chinese: &["工作", "职业"] },
    Label {
        prefix: "family.",
        asks: "",
        of_me: "family wife husband partner spouse son daughter child children kid kids mother father mom dad parent parents brother sister sibling married marriage relative gift",
        chinese: &[
            "家人",
            "妻子",
            "老婆",
            "丈夫",
            "老公",
            "儿子",
            "女儿",
            "孩子",
            "母亲",
            "父亲",
            "妈妈",
            "爸爸",
            "兄弟",
            "姐妹",
            "家里有",
        ],
    },
    Label {
        prefix: "diet.allergy",
        asks: "allergy allergic allergen food eat meal recipe cook dinner lunch breakfast restaurant snack dish menu ingredient dessert bake",
        of_me: "avoid safe",
        chinese: &["过敏", "吃", "食", "菜", "餐", "做饭", "忌口", "零食", "甜点", "食谱"],
    },
    Label {
        prefix: "diet.",
        asks: "diet food eat meal recipe cook dinner lunch breakfast restaurant snack dish menu vegetarian vegan ingredient dessert bake",
        of_me: "avoid drink",
        chinese: &["吃", "食", "菜", "餐", "做饭", "忌口", "素", "饮食", "零食", "甜点", "食谱"],
    },
    Label {
        prefix: "health.medication",
        asks: "medication medicine drug pill prescription dosage supplement painkiller",
        of_me: "take taking doctor health",
        chinese: &["药", "服用", "处方", "吃什么药"],
    },
    Label {
        prefix: "health.",
        asks: "health medical symptom diagnosis exercise workout",
        of_me: "condition doctor disease illness sick pain sport diet train",
        chinese: &["健康", "身体", "病", "症状", "运动", "锻炼", "医生"],
    },
    Label {
        prefix: "preference.",
        asks: "",
        of_me: "prefer preference favorite favourite like love enjoy hate dislike recommend recommendation suggest suggestion choose style",
        chinese: &["喜欢", "偏好", "最爱", "推荐", "讨厌", "爱好", "兴趣"],
    },
    Label {
        prefix: "project.",
        asks: "",
        of_me: "project repo repository codebase stack framework build deploy tool app application",
        chinese: &["项目", "仓库", "技术栈", "框架", "代码库"],
    },
    Label {
        prefix: "device.",
        asks: "",
        of_me: "device phone laptop computer machine pc mac car printer router tablet camera os hardware model",
        chinese: &["设备", "手机", "电脑", "笔记本", "车", "平板", "型号", "系统"],
    },
    Label {
        prefix: "order.",
        asks: "order refund shipment shipping tracking",
        of_me: "package parcel delivery purchase return arrive bought ticket ship delivered track",
        chinese: &["订单", "单号", "快递", "物流", "退款", "发货", "退货", "包裹", "工单"],
    },
    Label {
        prefix: "schedule.",
        asks: "",
        of_me: "schedule calendar appointment meeting plan plans trip busy free flight deadline when routine class",
        chinese: &["日程", "安排", "预约", "会议", "行程", "计划", "航班", "什么时候"],
    },
];

/// A label's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LabelId(u8);

/// The label of a key.
pub(super) fn of_key(key: &str) -> Option<LabelId> {
    let fits = LABELS.iter().enumerate().filter(|(_, label)| key.starts_with(label.prefix));
    let best = fits.max_by_key(|(_, label)| label.prefix.len())?;
    u8::try_from(best.0).ok().map(LabelId)
}

/// Labels that a question asks for, one bit each, in the order of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(u32);

impl Labels {
    pub(super) fn has(self, id: LabelId) -> bool {
        self.0 & (1 << id.0) != 0
    }
}

struct Table {
    asks: HashMap<TermId, u32>,
    of_me: HashMap<TermId, u32>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let collect = |words: fn(&Label) -> &'static str| {
        let mut table: HashMap<TermId, u32> = HashMap::new();
        for (at, label) in LABELS.iter().enumerate() {
            for term in text::analyse(words(label)) {
                *table.entry(term.id).or_default() |= 1 << at;
            }
        }
        table
    };
    Table { asks: collect(|label| label.asks), of_me: collect(|label| label.of_me) }
});

/// The labels that a question asks for. `terms` are its terms, `folded` is its folded text.
pub(super) fn asked(terms: impl Iterator<Item = TermId>, folded: &str) -> Labels {
    let table = &*TABLE;
    let of_me = speaks_of_oneself(folded);
    let mut labels = 0;
    for term in terms {
        labels |= table.asks.get(&term).copied().unwrap_or(0);
        if of_me {
            labels |= table.of_me.get(&term).copied().unwrap_or(0);
        }
    }
    if !folded.is_ascii() {
        for (at, label) in LABELS.iter().enumerate() {
            if label.chinese.iter().any(|phrase| folded.contains(phrase)) {
                labels |= 1 << at;
            }
        }
    }
    Labels(labels)
}

fn speaks_of_oneself(folded: &str) -> bool {
    folded
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| matches!(word, "i" | "my" | "me" | "mine" | "myself" | "we" | "our" | "us"))
        || folded.contains('我')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(question: &str, key: &str) -> bool {
        let folded = text::fold(question.into());
        let terms = text::analyse(question);
        asked(terms.iter().map(|term| term.id), &folded).has(of_key(key).unwrap())
    }

    #[test]
    fn a_question_finds_the_key_by_what_people_call_it() {
        for (question, key) in [
            ("Where do I live?", "location.home"),
            ("What food should I avoid?", "diet.restriction.meat"),
            ("which foods must be avoided", "diet.allergy"),
            ("Has my order shipped?", "order.id"),
            ("我住在哪里？", "location.home"),
            ("今晚吃什么好", "diet.allergy"),
            ("我的訂單到哪了", "order.id"),
            ("When is my birthday?", "identity.birthday"),
            ("what is my job", "work.role"),
        ] {
            assert!(asks(question, key), "{question}");
        }
    }

    #[test]
    fn a_question_about_something_else_asks_for_nothing() {
        for (question, key) in [
            ("How does a hash map work in Rust?", "work.employer"),
            ("What does this function call?", "contact.phone"),
            ("name three rivers", "identity.name"),
        ] {
            assert!(!asks(question, key), "{question}");
        }
    }

    #[test]
    fn the_longest_prefix_names_a_key() {
        assert_ne!(of_key("diet.allergy"), of_key("diet.restriction"));
        assert_eq!(of_key("note.anything"), None);
        assert!(LABELS.len() <= 32, "one bit each");
    }
}
