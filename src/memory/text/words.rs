//! Words that tell little, and names of currencies.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::FixedState;

/// How much a word tells by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commonness {
    /// A function word: left out everywhere.
    Function,
    /// An everyday word that occurs in texts about anything: indexed, but never enough by itself.
    Common,
    /// Any other.
    Telling,
}

/// Left out at index and query alike.
const FUNCTION: &str = "a an the and or but nor so if then than that this these those there here of to in on at by for from with about into \
    over under out up down off as is are was were be been being am do does did done doing have has had having i me my mine \
    myself you your yours yourself he him his himself she her hers herself it its itself we us our ours ourselves they them \
    their theirs themselves who whom whose which what when where why how all any both each few more most other some such no \
    not only own same too very can could will would shall should may might must just also again once during before after \
    above below between through because while until against further now ever even still yet im ive ill id dont doesnt didnt isnt \
    wasnt cant couldnt wont wouldnt shouldnt youre theyre hes shes weve lets let us oh ah um uh hey hi hello ok okay yes \
    yeah yep nope please thanks thank vs etc";

/// Indexed, but weigh little.
const COMMON: &str = "like likes liked get gets got getting go goes going went gone make makes made making know knows knew known \
    think thinks thought want wants wanted need needs needed see sees saw seen look looks looked looking take takes took taken \
    taking come comes came coming say says said saying tell tells told telling give gives gave given giving use uses used using \
    find finds found try tries tried trying ask asks asked talk talks talked talking feel feels felt feeling keep keeps kept put \
    show shows showed shown start starts started help helps helped helping thing things something anything everything nothing \
    someone anyone everyone somebody way ways lot lots bit kind kinds type types sort time times day days today good great nice \
    better best well bad new old big little much many really quite pretty actually maybe probably always never often usually \
    sometimes back first last next one two three people person man woman guy world year years month months week weeks long short \
    right sure different several another mean means life happen happens happened happening work works worked working write writes wrote \
    explain explains describe list example examples question questions answer answers problem problems code function \
    mention mentioned mentions share shared recently lately currently recent since ago around away together able else \
    cool awesome amazing wonderful glad happy hope hear heard sound sounds wow definitely totally absolutely especially \
    wrong later soon earlier remember recall forget far moment able matter true false every whole full free open close small high low easy hard plan \
    remember recall forget word words fact part parts name names called call number";

static ENGLISH: LazyLock<HashMap<&'static str, Commonness, FixedState>> = LazyLock::new(|| {
    let common = COMMON.split_whitespace().map(|word| (word, Commonness::Common));
    let function = FUNCTION.split_whitespace().map(|word| (word, Commonness::Function));
    common.chain(function).collect()
});

/// How much an English word tells; folded, whole.
pub(super) fn commonness(word: &str) -> Commonness {
    if word.len() == 1 && word.is_ascii() && !word.as_bytes()[0].is_ascii_digit() {
        return Commonness::Function;
    }
    ENGLISH.get(word).copied().unwrap_or(Commonness::Telling)
}

/// Chinese function words, longest first among those with a common beginning. Runs are parted here, at index and query alike, so a word
/// that happens to hold one (现在) is parted the same way on both sides.
const CHINESE: &[&str] = &[
    "为什么",
    "怎么样",
    "是不是",
    "有没有",
    "能不能",
    "可不可以",
    "什么",
    "怎么",
    "怎样",
    "如何",
    "哪里",
    "哪儿",
    "哪个",
    "哪些",
    "多少",
    "可以",
    "我们",
    "你们",
    "他们",
    "她们",
    "它们",
    "自己",
    "这个",
    "那个",
    "这些",
    "那些",
    "这里",
    "那里",
    "因为",
    "所以",
    "但是",
    "如果",
    "而且",
    "或者",
    "还是",
    "就是",
    "不是",
    "没有",
    "一下",
    "一个",
    "一些",
    "请问",
    "帮我",
    "告诉",
    "记得",
    "的",
    "了",
    "吗",
    "呢",
    "吧",
    "啊",
    "嘛",
    "呀",
    "哦",
    "是",
    "在",
    "我",
    "你",
    "您",
    "他",
    "她",
    "它",
    "和",
    "与",
    "及",
    "或",
    "就",
    "都",
    "也",
    "很",
    "还",
    "又",
    "这",
    "那",
    "哪",
    "谁",
    "几",
    "把",
    "被",
    "让",
    "给",
    "对",
    "从",
    "到",
    "向",
    "跟",
    "着",
    "过",
    "地",
    "得",
    "之",
    "其",
    "请",
    "么",
    "个",
    "元",
    "块",
    "块钱",
    "美元",
    "欧元",
    "英镑",
    "日元",
    "円",
    "港币",
    "港元",
    "人民币",
    "は",
    "が",
    "を",
    "に",
    "の",
    "で",
    "と",
    "も",
];

/// Length in bytes of the function word that `text` begins with; 0 when there is none.
pub(super) fn function_prefix(text: &str) -> usize {
    static BY_FIRST: LazyLock<HashMap<char, Vec<&'static str>>> = LazyLock::new(|| {
        let mut table: HashMap<char, Vec<&'static str>> = HashMap::new();
        for word in CHINESE {
            if let Some(first) = word.chars().next() {
                table.entry(first).or_default().push(word);
            }
        }
        for words in table.values_mut() {
            words.sort_unstable_by_key(|word| std::cmp::Reverse(word.len()));
        }
        table
    });
    // 过敏, 地址, 地方, 对象, 个人 and the like are words of their own: the character is not a function word there.
    const NOT: &[&str] = &[
        "过敏", "过年", "过期", "地址", "地方", "地铁", "地点", "地图", "地区", "地板", "对象", "对账", "个人", "个子",
        "从事", "到期", "得分", "得奖", "给力", "元旦", "元素", "就业", "都市", "和平", "和服", "几何", "着色", "还款",
        "还书", "向导", "请假", "请客", "之前", "之后",
    ];
    let Some(first) = text.chars().next() else { return 0 };
    let Some(words) = BY_FIRST.get(&first) else { return 0 };
    if NOT.iter().any(|word| text.starts_with(word)) {
        return 0;
    }
    words.iter().find(|word| text.starts_with(**word)).map_or(0, |word| word.len())
}

/// Everyday pairs that occur in texts about anything.
const COMMON_PAIRS: &str = "今天 明天 昨天 现在 时候 时间 知道 觉得 喜欢 想要 需要 应该 可能 已经 一直 一样 一起 东西 事情 问题 方法 写一 一段 一篇 解释 介绍 推荐 帮忙 谢谢 你好 \
    早上 晚上 上次 之前 以前 最近 名字 意思 比较 非常 真的 不错 不要 不会 不能 会不 最好 好的 好吃 实现 代码 函数 程序 区别 例子 数据";

/// Whether a pair of characters tells little by itself.
pub(super) fn is_common_pair(pair: &str) -> bool {
    static PAIRS: LazyLock<std::collections::HashSet<&'static str>> =
        LazyLock::new(|| COMMON_PAIRS.split_whitespace().collect());
    PAIRS.contains(pair)
}

/// Single characters that tell little by themselves.
const COMMON_SINGLES: &str = "好大小来去人说看想做用写讲年月日天时分秒一二三四五六七八九十百千万不没会能要有上下里外前后多少吃喝买卖家新老叫问答开关走跑点次件种样只双张条号钱";

/// Whether a character by itself tells little.
pub(super) fn is_common_single(text: &str) -> bool {
    COMMON_SINGLES.contains(text)
}

/// The unit that a word stands for, behind a number.
pub(super) fn unit_word(word: &str) -> Option<&'static str> {
    Some(match word {
        "km" | "kms" | "kilometer" | "kilometers" | "kilometre" | "kilometres" | "公里" => "km",
        "cm" | "centimeter" | "centimeters" | "centimetre" | "centimetres" | "厘米" => "cm",
        "mm" | "millimeter" | "millimeters" | "millimetre" | "millimetres" | "毫米" => "mm",
        "mi" | "mile" | "miles" | "英里" => "mi",
        "ft" | "foot" | "feet" | "英尺" => "ft",
        "kg" | "kgs" | "kilo" | "kilos" | "kilogram" | "kilograms" | "公斤" | "千克" => "kg",
        "mg" | "milligram" | "milligrams" | "毫克" => "mg",
        "lb" | "lbs" | "pounds" => "lb",
        "oz" | "ounce" | "ounces" => "oz",
        "ml" | "milliliter" | "milliliters" | "毫升" => "ml",
        "kb" => "kb",
        "mb" => "mb",
        "gb" | "gigabyte" | "gigabytes" => "gb",
        "tb" | "terabyte" | "terabytes" => "tb",
        "ghz" => "ghz",
        "mhz" => "mhz",
        "kwh" => "kwh",
        "mins" | "min" | "minute" | "minutes" | "分钟" => "min",
        "hr" | "hrs" | "hour" | "hours" | "小时" => "h",
        "percent" | "%" => "%",
        "degrees" | "摄氏度" | "度" => "deg",
        _ => return None,
    })
}

/// The Chinese unit that a text begins with, and its length in bytes.
pub(super) fn unit_prefix(text: &str) -> Option<(&'static str, usize)> {
    const UNITS: [&str; 13] =
        ["公里", "厘米", "毫米", "英里", "英尺", "公斤", "千克", "毫克", "毫升", "分钟", "小时", "摄氏度", "度"];
    let unit = UNITS.iter().find(|unit| text.starts_with(**unit))?;
    Some((unit_word(unit)?, unit.len()))
}

/// What a word makes of the number before it: 万, million.
pub(super) fn multiplier(word: &str) -> Option<u64> {
    Some(match word {
        "k" | "thousand" => 1_000,
        "million" | "millions" => 1_000_000,
        "billion" | "billions" => 1_000_000_000,
        _ => return None,
    })
}

/// The same of what a Chinese text begins with, and its length in bytes.
pub(super) fn multiplier_prefix(text: &str) -> Option<(u64, usize)> {
    const WORDS: [(&str, u64); 5] =
        [("百万", 1_000_000), ("千万", 10_000_000), ("万", 10_000), ("亿", 100_000_000), ("千", 1_000)];
    let (word, times) = WORDS.iter().find(|(word, _)| text.starts_with(word))?;
    // 千克 is a unit.
    (!text.starts_with("千克")).then_some((*times, word.len()))
}

/// Russian words that tell little; Cyrillic is hardly written in any other language here.
pub(super) fn is_russian_function(word: &str) -> bool {
    const WORDS: &str = " и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от \
        меня еще нет о из ему теперь когда даже ну ли если уже или ни быть был него до вас опять уж вам ведь там потом себя ей может они \
        тут где есть надо ней для мы тебя их чем была сам чтоб без чего раз тоже себе под будет ж тогда кто этот того потому этого какой \
        это мой моя мое мои твой наш ваш была были ";
    word.len() <= 12 && WORDS.split(' ').any(|known| known == word)
}

/// The currency that a sign stands for.
pub(super) fn currency_sign(sign: char) -> Option<&'static str> {
    Some(match sign {
        '$' => "usd",
        '€' => "eur",
        '£' => "gbp",
        '¥' => "cny",
        '₹' => "inr",
        '₩' => "krw",
        _ => return None,
    })
}

/// The currency that a word stands for.
pub(super) fn currency_word(word: &str) -> Option<&'static str> {
    Some(match word {
        "块钱" => "cny",
        "欧元" => "eur",
        "英镑" => "gbp",
        "jpy" | "yen" | "日元" | "円" => "jpy",
        "hkd" | "港币" | "港元" => "hkd",
        "usd" | "dollar" | "dollars" | "bucks" | "美元" => "usd",
        "eur" | "euro" | "euros" => "eur",
        "gbp" => "gbp",
        "cny" | "rmb" | "yuan" | "元" | "块" | "人民币" => "cny",
        "inr" | "rupee" | "rupees" => "inr",
        "krw" => "krw",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_words_are_told_from_words_that_begin_like_them() {
        assert_eq!(function_prefix("的设备"), "的".len());
        assert_eq!(function_prefix("什么时候"), "什么".len());
        assert_eq!(function_prefix("过敏"), 0);
        assert_eq!(function_prefix("设备"), 0);
    }

    #[test]
    fn words_differ_in_what_they_tell() {
        assert_eq!(commonness("the"), Commonness::Function);
        assert_eq!(commonness("thing"), Commonness::Common);
        assert_eq!(commonness("peanut"), Commonness::Telling);
    }
}
