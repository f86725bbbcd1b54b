//! Summaries as models write them, of talks as people have them: what is faithful stays, what is invented goes.

use bytes::Bytes;
use serde_json::json;

use super::{Material, checked};
use crate::conversation::chain;
use crate::memory::Scope;
use crate::wire::ChatRequest;

fn material(said: &[(&str, &str)]) -> Material {
    let messages: Vec<_> = said.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    let request = ChatRequest::decode(Bytes::from(json!({"model": "m", "messages": messages}).to_string())).unwrap();
    Material::read(&request, &chain(&Scope::new("t", "n", "s"), &request), said.len()).unwrap()
}

/// Faithful sentences stay, each of the invented ones goes.
#[track_caller]
fn check(said: &[(&str, &str)], faithful: &str, invented: &[&str]) {
    let material = material(said);
    assert_eq!(checked(faithful, true, &material).as_deref(), Ok(faithful));
    for sentence in invented {
        let kept = checked(&format!("{faithful}\n{sentence}"), true, &material);
        assert_eq!(kept.as_deref(), Ok(faithful), "{sentence}");
    }
}

#[test]
fn a_support_case() {
    check(
        &[
            ("user", "Hi, my order 20260304-17 still hasn't arrived. I paid 49.90 EUR on March 4."),
            ("assistant", "I'm sorry to hear that. Could you confirm the delivery address?"),
            ("user", "Sure: 221 Baker Street, London. My name is Priya Nair, phone +44 20 7946 0958."),
            (
                "assistant",
                "Thank you, Priya. The parcel is with DHL, tracking JD014600003. It should arrive on Friday.",
            ),
            ("user", "If it's not here by Friday I want a refund, not a replacement."),
        ],
        "The user, Priya Nair, reported that order 20260304-17, paid with 49.90 EUR on March 4, had not arrived. \
        Delivery was confirmed for 221 Baker Street, London, with the phone number +44 20 7946 0958. \
        According to the assistant, the parcel is with DHL under tracking number JD014600003 and should arrive on Friday. \
        If it does not arrive by Friday, the user wants a refund rather than a replacement. \
        Still open is whether the parcel arrives in time.",
        &[
            "The parcel is with UPS.",
            "The refund of 59.90 EUR was approved.",
            "It will arrive on Saturday.",
            "The user has contacted support three times.",
            "Priya Sharma signed for it.",
            "The parcel was seen in Manchester.",
            "The tracking number is JD014600004.",
        ],
    );
}

#[test]
fn a_coding_session() {
    check(
        &[
            ("user", "The build fails with E0499 in src/cache/lru.rs line 88. We're on Rust 1.83 and tokio 1.41."),
            ("assistant", "You borrow `self.map` mutably twice. Split the entry lookup from the insertion."),
            ("user", "That worked. Now `evict_oldest` is slow, 40 ms for 10,000 entries."),
            ("assistant", "Use a BTreeMap keyed by (last_used, id) so that eviction is O(log n)."),
            ("user", "OK but Marek wants no new dependencies, and it has to ship in v2.4.0."),
        ],
        "The user's build failed with E0499 in src/cache/lru.rs at line 88, using Rust 1.83 and tokio 1.41. \
        Splitting the entry lookup from the insertion fixed it. \
        Afterwards `evict_oldest` was found to be slow, taking 40 ms for 10,000 entries. \
        The assistant suggested a BTreeMap keyed by (last_used, id). \
        Marek wants no new dependencies, and the change has to ship in v2.4.0.",
        &[
            "It takes 45 ms now.",
            "The fix is in src/cache/lfu.rs.",
            "Ivan reviewed it.",
            "They use Rust 1.84.",
            "It ships in v2.5.0.",
            "They decided on `evict_newest`.",
        ],
    );
}

#[test]
fn a_chinese_support_case() {
    check(
        &[
            ("user", "你好，我的订单20260304-17还没到，3月4日付款49.9元，我叫李晓梅。"),
            ("assistant", "李女士您好，请确认一下收货地址。"),
            ("user", "杭州市西湖区文三路90号，电话13812345678。周五之前不到我就要退款，不要换货。"),
            ("assistant", "好的，包裹由顺丰承运，运单号SF1234567890，预计周五送达。"),
        ],
        "用户李晓梅反映订单20260304-17尚未收到，该订单于3月4日付款49.9元。\
        收货地址为杭州市西湖区文三路90号，联系电话13812345678。\
        包裹由顺丰承运，运单号为SF1234567890，预计周五送达。\
        如果周五之前没有送到，用户要求退款，不接受换货。\
        目前尚待确认包裹能否按时到达。",
        &[
            "包裹由中通承运，运单号为ZT1234567890。",
            "用户已获退款59.9元。",
            "预计周六送达。",
            "用户王小明反映问题。",
            "收货地址为苏州市文三路90号。",
            "电话是13812345679。",
            "客服张经理已处理。",
        ],
    );
}

#[test]
fn a_chinese_travel_plan() {
    check(
        &[
            ("user", "我想五一带爸妈去云南玩七天，预算两万元，妈妈膝盖不好，不能爬山。"),
            ("assistant", "可以昆明、大理、丽江各住两晚，丽江不上雪山，改去束河古镇。"),
            ("user", "大理想住洱海边，酒店要有电梯。航班从北京出发，最好上午。"),
            ("assistant", "推荐国航CA1403，上午8:30起飞。"),
        ],
        "用户计划五一期间带父母去云南旅行七天，预算为两万元。\
        由于妈妈膝盖不好，行程不能安排爬山。\
        初步方案是昆明、大理、丽江各住两晚，丽江改去束河古镇，不上雪山。\
        在大理希望住在洱海边，酒店需要有电梯。\
        航班从北京出发，助手推荐了上午8:30起飞的国航CA1403。",
        &["预算为三万元。", "行程共九天。", "航班为CA1404。", "上午9:30起飞。", "同行的还有张伟。"],
    );
}

#[test]
fn a_russian_and_a_spanish_talk() {
    check(
        &[("user", "Меня зовут Анна, я живу в Казани и хочу купить велосипед за 30000 рублей.")],
        "Пользователь хочет купить велосипед за 30000 рублей.",
        &["Пользователь живёт в Москве.", "Велосипед стоит 40000 рублей.", "Его зовут Иван."],
    );
    check(
        &[("user", "Me llamo Lucía, vivo en Sevilla y quiero aprender a tocar la guitarra en 6 meses.")],
        "Lucía vive en Sevilla. Quiere aprender a tocar la guitarra en 6 meses.",
        &["Vive en Granada.", "Quiere aprender en 7 meses.", "Se llama Carmen."],
    );
}
