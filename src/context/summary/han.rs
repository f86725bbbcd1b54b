//! Numbers, days and names as Chinese writes them: without capitals and spaces, so by their usual surroundings.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

pub(super) use crate::memory::language::is_han;

/// Numbers in Chinese characters.
static NUMERAL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[零〇一二两三四五六七八九十百千万亿]+").expect("a test compiles it"));
/// Days of the week.
static WEEKDAY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("(?:周|星期|礼拜)([一二三四五六日天])").expect("a test compiles it"));
/// Places, by what they end in.
static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\p{Han}{2}(?:省|市|县|镇|村|路|街|大学|医院|公司|银行|酒店|机场|车站)").expect("a test compiles it")
});
/// People, by a surname at the beginning, behind a mark or behind a word that a name follows.
static PERSON: LazyLock<Regex> = LazyLock::new(|| {
    let surnames = "赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦许何吕张孔曹严华金魏陶姜谢邹喻苏潘葛范彭鲁韦马苗方俞任袁柳史唐费薛雷贺倪汤罗毕郝安常傅卞齐伍余顾孟黄穆萧尹姚邵汪祁毛狄戴宋庞熊纪舒屈项祝董梁杜阮蓝季贾江童颜郭梅林徐邱骆高夏蔡田樊胡凌霍万柯卢莫房丁邓洪石崔龚程陆翁侯段巫焦谷车宓蓬全班秋仲宫宁武符刘景龙叶温庄晏柴瞿向易廖耿匡文欧游师曾关白蒲";
    Regex::new(&format!(
        r"(?:^|[，。、；：,;:（(\s]|叫|是|有|和|与|跟|给|找|由|向|对|联系|同事|朋友|客户|用户|医生|老师|经理|律师|妻子|丈夫|儿子|女儿|哥哥|姐姐|弟弟|妹妹|同学|老板|邻居)((?:欧阳|司马|上官|诸葛|[{surnames}])\p{{Han}})"
    ))
    .expect("a test compiles it")
});
/// People, by a title behind a surname.
static TITLED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(\p{Han})(?:先生|女士|小姐|太太|医生|老师|教授|经理|律师|师傅|总监|主任)").expect("a test compiles it")
});

/// Words that begin like a name and are none.
const COMMON: &[&str] = &[
    "方便", "方案", "方式", "方法", "方面", "方向", "高兴", "高铁", "高级", "高价", "安排", "安全", "安装", "马上",
    "成功", "周末", "周一", "周二", "周三", "周四", "周五", "周六", "周日", "周年", "周围", "常常", "常用", "常见",
    "于是", "白天", "白色", "黄色", "黄金", "金额", "金属", "金色", "许多", "何时", "何种", "何处", "任何", "任务",
    "谢谢", "万一", "毛病", "江边", "康复", "温度", "路上", "石头", "平时", "程序", "程度", "应该", "计划", "花费",
    "时间", "文件", "文档", "文章", "文字", "文本", "关于", "关注", "关闭", "关系", "关键", "项目", "余额", "余下",
    "包括", "单号", "全部", "全家", "全程", "全额", "房间", "房子", "房价", "房型", "房租", "车票", "车辆", "车型",
    "向导", "向其", "向他", "向客", "对方", "对此", "对话", "易于", "容易", "田里", "唐代", "宋代", "夏天", "夏季",
    "秋天", "秋季", "白菜", "雷雨", "水果", "师傅", "班级", "班车", "全新", "全天", "全年", "石油", "游客", "游戏",
    "游泳", "景点", "景区", "武汉", "宁波", "温州", "江苏", "江西", "安徽", "黄山", "龙井", "华为", "齐全", "项链",
    "祝愿", "季度", "毕业", "毕竟", "施工", "曾经", "曾在", "曾提", "欧元", "欧洲", "严重", "严格", "钱款", "钱包",
    "林业", "莫名", "易用", "万元", "安卓", "程式", "车站", "段落", "段时", "焦虑", "谷歌", "华人", "文员", "苏打",
    "杨梅", "梅花", "柳树", "马路", "马桶", "罗马", "孔子", "费用", "费率", "顾客", "顾虑", "纪念", "舒服", "舒适",
    "童年", "颜色", "胡同", "凌晨", "石材", "洪水", "陆续", "侯车", "叶子", "向上", "向下", "何地", "何人", "何事",
    "陈述", "陈列", "喻为", "范围", "彭湃", "史上", "贺卡", "汤药", "安静", "伍佰", "孟买", "尹始", "戴着", "熊猫",
    "屈服", "梁上", "杜绝", "蓝色", "贾商", "郭外", "徐徐", "高速", "高度", "高温", "蔡司", "霍乱", "丁香", "邓丽",
    "任意", "任职", "师生", "全面", "全体", "全职", "秋冬", "金融", "和平", "白酒", "白领",
];

/// Whether every number, day, place and person that the sentence names in Chinese occurs in the source.
pub(super) fn borne_out(sentence: &str, source: &str, numbers: &HashSet<String>) -> bool {
    if !sentence.contains(is_han) {
        return true;
    }
    numerals(sentence, source, numbers)
        && WEEKDAY.captures_iter(sentence).all(|found| {
            let day = found.get(1).map_or("", |m| m.as_str());
            let is_day = |other: &str| other == day || (matches!(day, "日" | "天") && matches!(other, "日" | "天"));
            WEEKDAY.captures_iter(source).any(|other| other.get(1).is_some_and(|m| is_day(m.as_str())))
        })
        && PLACE.find_iter(sentence).all(|found| source.contains(found.as_str()) || is_plain(found.as_str()))
        && people(sentence, source)
}

fn numerals(sentence: &str, source: &str, numbers: &HashSet<String>) -> bool {
    NUMERAL.find_iter(sentence).all(|found| {
        let numeral = found.as_str();
        // 一 is mostly an article, the round ones are parts of words (十分, 千万, 万一).
        matches!(numeral, "一" | "十" | "百" | "千" | "万" | "亿" | "千万" | "万一" | "万千")
            || source.contains(numeral)
            || value(numeral).is_some_and(|value| numbers.contains(&value.to_string()))
    })
}

fn people(sentence: &str, source: &str) -> bool {
    let named = PERSON.captures_iter(sentence).filter_map(|found| found.get(1));
    let mut named = named.filter(|name| !COMMON.iter().any(|word| name.as_str().starts_with(word)));
    let mut titled = TITLED.captures_iter(sentence);
    named.all(|name| source.contains(name.as_str()))
        && titled.all(|found| {
            let whole = found.get(0).map_or("", |m| m.as_str());
            let before = found.get(1).map_or("", |m| m.as_str());
            // "一位医生", "的老师": no name before the title.
            matches!(
                before,
                "位" | "个"
                    | "名"
                    | "的"
                    | "是"
                    | "和"
                    | "找"
                    | "给"
                    | "与"
                    | "向"
                    | "对"
                    | "由"
                    | "该"
                    | "其"
                    | "看"
                    | "当"
                    | "为"
                    | "户"
            ) || source.contains(whole)
                || source.contains(before) && !source.contains(&whole[before.len()..])
        })
}

/// Whether what stands before the ending of a place is no name of one: "去这家公司", "住的酒店".
fn is_plain(place: &str) -> bool {
    let mut chars = place.chars();
    let before: String = chars.by_ref().take(2).collect();
    before.contains([
        '家', '的', '个', '座', '条', '间', '该', '在', '去', '到', '往', '从', '这', '那', '某', '本', '订', '住',
        '有', '选', '找', '要', '是', '对', '与', '和', '及', '为', '向', '离',
    ])
}

/// The value of a number in Chinese characters, up to 9,999.
fn value(numeral: &str) -> Option<u32> {
    let digit = |c: char| {
        "零一二三四五六七八九".chars().position(|d| d == c).or((c == '〇').then_some(0)).or((c == '两').then_some(2))
    };
    let (mut total, mut last) = (0_u32, None);
    for c in numeral.chars() {
        let unit = match c {
            '十' => 10,
            '百' => 100,
            '千' => 1_000,
            _ => {
                last = Some(digit(c)? as u32);
                continue;
            }
        };
        total += last.take().unwrap_or(1) * unit;
    }
    total.checked_add(last.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::grounded::Source;
    use super::*;

    #[test]
    fn what_a_chinese_sentence_names_stands_in_the_source() {
        for (source, sentence, expected) in [
            ("我有3条船", "用户有三条船。", true),
            ("我有三条船", "用户有三条船。", true),
            ("我有三条船", "用户有四条船。", false),
            ("二十五个人", "共25人。", false),
            ("25个人", "共二十五人。", true),
            ("我想去玩", "用户提出了一个想法，十分期待。", true),
            ("星期三开会", "周三开会。", true),
            ("星期三开会", "周四开会。", false),
            ("星期天", "在周日。", true),
            ("我在南京市", "用户住在南京市。", true),
            ("我在南京", "用户住在苏州市。", false),
            ("我预订了房间", "用户已预订酒店。", true),
            ("张伟来了", "用户的朋友张伟来了。", true),
            ("朋友来了", "用户的朋友张伟来了。", false),
            ("李经理说可以", "李经理同意了。", true),
            ("经理说可以", "李经理同意了。", false),
            ("我看了医生", "用户看了一位医生。", true),
            ("我想安排时间", "用户需要安排时间，方便的话是周末。", true),
            ("我用iPhone", "用户使用iPhone。", true),
            ("我用手机", "用户使用iPhone。", false),
            ("书是《三体》", "用户在读《三体》。", true),
            ("书是《三体》", "用户在读《活着》。", false),
        ] {
            assert_eq!(Source::new(source).bears_out(sentence), expected, "{sentence} of {source}");
        }
    }

    #[test]
    fn numerals_have_their_values() {
        for (numeral, expected) in
            [("三", 3), ("十五", 15), ("二十", 20), ("两百零五", 205), ("一千二百", 1_200), ("二〇", 0)]
        {
            if expected > 0 {
                assert_eq!(value(numeral), Some(expected), "{numeral}");
            }
        }
        assert_eq!(value("一万"), None);
    }
}
