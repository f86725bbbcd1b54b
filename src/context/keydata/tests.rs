//! Each kind in English and in Chinese, with what looks like it and is not.

use super::*;

fn found(text: &str) -> Vec<&str> {
    key_data(text).map(|datum| datum.text).collect()
}

/// Each pair: a text, and what is found in it of this kind, separated by `|`.
#[track_caller]
fn check(kind: Kind, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let found: Vec<_> = key_data(text).filter(|datum| datum.kind == kind).map(|datum| datum.text).collect();
        let expected: Vec<_> = expected.split('|').filter(|part| !part.is_empty()).collect();
        assert_eq!(found, expected, "{kind:?} in {text:?}; all: {:?}", key_data(text).collect::<Vec<_>>());
    }
}

#[test]
fn english_key_data_is_found_word_for_word() {
    let text = "My order number is A-2291, ticket #4711; I paid $1,299.00 (or 20 EUR) on 2026-03-04, see https://x.test/a?b=1. \
        Call +49 30 1234-567 or mail ada@mail.test. We run v2.3.1 of \"Blue Heron\" in /srv/app/main.rs since March 5th, 2025.";
    assert_eq!(
        found(text),
        [
            "order number is A-2291",
            "ticket #4711",
            "$1,299.00",
            "20 EUR",
            "2026-03-04",
            "https://x.test/a?b=1",
            "+49 30 1234-567",
            "ada@mail.test",
            "v2.3.1",
            "\"Blue Heron\"",
            "/srv/app/main.rs",
            "March 5th, 2025",
        ]
    );
}

#[test]
fn chinese_key_data_is_found_word_for_word() {
    let text = "我的订单号是SH-88213，付了1299元，也就是¥1,299.00，3月5日送到上海市浦东新区世纪大道100号，电话13812345678，书名《三体》，版本v3.2";
    assert_eq!(
        found(text),
        [
            "订单号是SH-88213",
            "1299元",
            "¥1,299.00",
            "3月5日",
            // Where an address begins in a run of characters no rule can say: a little more does no harm.
            "送到上海市浦东新区世纪大道100号",
            "13812345678",
            "《三体》",
            "版本v3.2"
        ]
    );
}

#[test]
fn plain_talk_has_none() {
    for text in [
        "I like tea and long walks, the 3 of us went in May or so.",
        "It was one of the best days; he/she said so, and/or we did.",
        "今天天气很好，我们去公园走走吧。",
        "我觉得有点累，三个人一块去了两次。",
    ] {
        assert!(found(text).is_empty(), "{:?}", found(text));
    }
}

#[test]
fn references_english() {
    check(
        Kind::Reference,
        &[
            ("my order number is A-2291.", "order number is A-2291"),
            ("ticket #4711 is open", "ticket #4711"),
            ("invoice INV-2024-001 is late", "invoice INV-2024-001"),
            ("Invoice no. 77", "Invoice no. 77"),
            ("see case: 88-12", "case: 88-12"),
            ("order 123456 came", "order 123456"),
            ("flight BA117 at noon", "flight BA117"),
            ("we are in room 12", "room 12"),
            ("booking reference QX7K2P", "booking reference QX7K2P"),
            ("confirmation code is KLMNPQ", "confirmation code is KLMNPQ"),
            ("tracking number: 1Z999AA10123456784", "tracking number: 1Z999AA10123456784"),
            ("PO 45001", "PO 45001"),
            ("in case 3 people come", ""),
            ("I order 2 pizzas", ""),
            ("the order of things", ""),
            ("account for it", ""),
            ("in order to win", ""),
        ],
    );
}

#[test]
fn references_chinese() {
    check(
        Kind::Reference,
        &[
            ("订单号是SH-88213", "订单号是SH-88213"),
            ("订单号：20260304001", "订单号：20260304001"),
            ("工单#4711", "工单#4711"),
            ("发票号码 88213", "发票号码 88213"),
            ("快递单号SF1234567890", "单号SF1234567890"),
            ("航班CA1501", "航班CA1501"),
            ("合同编号HT-2026-01", "合同编号HT-2026-01"),
            ("会员号12345", "会员号12345"),
            ("房间号是1208", "房间号是1208"),
            ("邮编100080", "邮编100080"),
            ("单独去", ""),
            ("简单的事", ""),
            ("订单还没到", ""),
            ("合同签了", ""),
        ],
    );
}

#[test]
fn dates_english() {
    check(
        Kind::Date,
        &[
            ("on 2026-03-04 we", "2026-03-04"),
            ("at 2026-03-04T10:00:00Z", "2026-03-04T10:00:00Z"),
            ("due on 12/31/2026", "12/31/2026"),
            ("on 31.12.2026", "31.12.2026"),
            ("since March 5th, 2025.", "March 5th, 2025"),
            ("on 5 May 2024 we met", "5 May 2024"),
            ("the 5th of June", "5th of June"),
            ("on Sept 9", "Sept 9"),
            ("by december 24th", "december 24th"),
            ("in Q3 2026", "Q3 2026"),
            ("in March 2027", "March 2027"),
            ("meet at 14:30", "14:30"),
            ("at 2:30 pm", "2:30 pm"),
            ("around 3pm", "3pm"),
            ("may 3 people come", ""),
            ("we march 10 miles", ""),
            ("a ratio of 3:1", ""),
            ("open 24/7", ""),
            ("I may go", ""),
        ],
    );
}

#[test]
fn dates_chinese() {
    check(
        Kind::Date,
        &[
            ("在2026年3月4日出发", "2026年3月4日"),
            ("3月5号见", "3月5号"),
            ("2026年3月完成", "2026年3月"),
            ("2026年底", "2026年"),
            ("三月五日", "三月五日"),
            ("农历八月十五", "农历八月十五"),
            ("下午3点半开会", "下午3点半"),
            ("15点30分", "15点30分"),
            ("上午9点", "上午9点"),
            ("晚上8:30开始", "晚上8:30"),
            ("2026/03/04", "2026/03/04"),
            ("三个月后", ""),
            ("5个月", ""),
            ("有3点要说", ""),
            ("一点也不", ""),
        ],
    );
}

#[test]
fn amounts_english() {
    check(
        Kind::Amount,
        &[
            ("paid $1,299.00.", "$1,299.00"),
            ("costs $5", "$5"),
            ("about 20 EUR or so", "20 EUR"),
            ("EUR 20", "EUR 20"),
            ("20 euros", "20 euros"),
            ("five or 5 dollars", "5 dollars"),
            ("raised $3.5 million", "$3.5 million"),
            ("3 million dollars", "3 million dollars"),
            ("up 12.5%", "12.5%"),
            ("20 percent off", "20 percent"),
            ("US$ 30", "US$ 30"),
            ("£3.50 each", "£3.50"),
            ("5 points", ""),
            ("set $HOME", ""),
            ("3 people", ""),
            ("the dollar fell", ""),
            ("1.5 hours", ""),
        ],
    );
}

#[test]
fn amounts_chinese() {
    check(
        Kind::Amount,
        &[
            ("付了1299元", "1299元"),
            ("¥1,299.00", "¥1,299.00"),
            ("￥88", "￥88"),
            ("大概3万元", "3万元"),
            ("5块钱", "5块钱"),
            ("三百元", "三百元"),
            ("人民币500", "人民币500"),
            ("500人民币", "500人民币"),
            ("打8折", "8折"),
            ("百分之二十", "百分之二十"),
            ("涨了20%", "20%"),
            ("200美元", "200美元"),
            ("元旦快乐", ""),
            ("公元前", ""),
            ("一块去吧", ""),
            ("10个人", ""),
        ],
    );
}

#[test]
fn phones_of_both() {
    check(
        Kind::Phone,
        &[
            ("call +49 30 1234-567 now", "+49 30 1234-567"),
            ("(555) 123-4567", "(555) 123-4567"),
            ("555-123-4567", "555-123-4567"),
            ("555.123.4567", "555.123.4567"),
            ("+1 (415) 555-0100", "+1 (415) 555-0100"),
            ("800-555-0199", "800-555-0199"),
            ("0171 234 5678", "0171 234 5678"),
            ("+44 20 7946 0958", "+44 20 7946 0958"),
            ("电话13812345678", "13812345678"),
            ("手机138-1234-5678", "138-1234-5678"),
            ("手机 138 1234 5678", "138 1234 5678"),
            ("座机010-12345678", "010-12345678"),
            ("021-6234 5678", "021-6234 5678"),
            ("客服400-820-8820", "400-820-8820"),
            ("+86 138 1234 5678", "+86 138 1234 5678"),
            ("打(010) 6234 5678", "(010) 6234 5678"),
            ("10-20 people", ""),
            ("in 2020-2021", ""),
            ("1 + 2 = 3", ""),
            ("192.168.0.1", ""),
            ("2026-03-04", ""),
            ("有10-20个人", ""),
            ("第3-5页", ""),
        ],
    );
}

#[test]
fn mail_addresses_of_both() {
    check(
        Kind::Email,
        &[
            ("mail ada@mail.test.", "ada@mail.test"),
            ("<bob.b+x@sub.mail.test>", "bob.b+x@sub.mail.test"),
            ("a_b%c@x-y.test, please", "a_b%c@x-y.test"),
            ("ANN@MAIL.TEST", "ANN@MAIL.TEST"),
            ("two: a@b.test and c@d.test", "a@b.test|c@d.test"),
            ("mailto:ada@mail.test", "ada@mail.test"),
            ("邮箱是ada@mail.test。", "ada@mail.test"),
            ("发到li.wei@mail.test吧", "li.wei@mail.test"),
            ("邮件：wang@corp.test，谢谢", "wang@corp.test"),
            ("联系zhang_3@mail.test或者电话", "zhang_3@mail.test"),
            ("@ada said", ""),
            ("a@b", ""),
            ("at 5@night", ""),
            ("在微信@我", ""),
        ],
    );
}

#[test]
fn urls_of_both() {
    check(
        Kind::Url,
        &[
            ("see https://x.test/a?b=1.", "https://x.test/a?b=1"),
            ("(https://x.test/a)", "https://x.test/a"),
            ("https://x.test/a_(b) is", "https://x.test/a_(b)"),
            ("http://localhost:8080/v1, then", "http://localhost:8080/v1"),
            ("go to www.mail.test/x", "www.mail.test/x"),
            ("at docs.mail.com/guide#top", "docs.mail.com/guide#top"),
            ("ssh://git@x.test:22/r.git", "ssh://git@x.test:22/r.git"),
            ("[link](https://x.test/q)", "https://x.test/q"),
            ("HTTPS://X.TEST/Q", "HTTPS://X.TEST/Q"),
            ("wss://x.test/s", "wss://x.test/s"),
            ("请看https://x.test/q。", "https://x.test/q"),
            ("链接https://x.test/q看看", "https://x.test/q"),
            ("（https://x.test/q）", "https://x.test/q"),
            ("网址是www.mail.cn，谢谢", "www.mail.cn"),
            ("打开：http://x.test:81/a；", "http://x.test:81/a"),
            ("http is a protocol", ""),
            ("e.g. this", ""),
            ("I am done.com on", ""),
            ("这是网址", ""),
        ],
    );
}

#[test]
fn addresses_english() {
    check(
        Kind::Address,
        &[
            ("she lives at 221 Baker Street, London now", "221 Baker Street, London"),
            ("10 Downing St", "10 Downing St"),
            ("1600 Pennsylvania Ave NW, Washington, DC 20500", "1600 Pennsylvania Ave NW, Washington, DC 20500"),
            ("at 12 N. Main Street, Apt 4", "12 N. Main Street, Apt 4"),
            ("5b Old Mill Lane", "5b Old Mill Lane"),
            ("350 Fifth Avenue, New York, NY 10118", "350 Fifth Avenue, New York, NY 10118"),
            ("PO Box 123", "PO Box 123"),
            ("Lindenstraße 5, 10115 Berlin", "Lindenstraße 5, 10115 Berlin"),
            ("postcode SW1A 2AA", "SW1A 2AA"),
            ("7 King's Road", "7 King's Road"),
            ("there are 3 ways to go", ""),
            ("2 people drive", ""),
            ("the Street is long", ""),
            ("5 Great Ideas", ""),
        ],
    );
}

#[test]
fn addresses_chinese() {
    check(
        Kind::Address,
        &[
            ("上海市浦东新区世纪大道100号", "上海市浦东新区世纪大道100号"),
            ("浙江省杭州市西湖区文三路90号5幢302室", "浙江省杭州市西湖区文三路90号5幢302室"),
            ("北京市海淀区中关村大街1号", "北京市海淀区中关村大街1号"),
            ("世纪大道100号", "世纪大道100号"),
            ("南京西路1266号3楼", "南京西路1266号3楼"),
            ("广州市天河区体育东路 5 号", "广州市天河区体育东路 5 号"),
            ("花园街12弄", "花园街12弄"),
            ("人民路8号2单元301室", "人民路8号2单元301室"),
            ("成都市武侯区天府大道1700号", "成都市武侯区天府大道1700号"),
            ("长安街10号院", "长安街10号院"),
            ("走路5分钟", ""),
            ("上海市很大", ""),
            ("我知道3个", ""),
            ("3号线", ""),
        ],
    );
}

#[test]
fn versions_of_both() {
    check(
        Kind::Version,
        &[
            ("We run v2.3.1 of it", "v2.3.1"),
            ("use 2.3.1-beta.1", "2.3.1-beta.1"),
            ("version 4 is out", "version 4"),
            ("it is v3", "v3"),
            ("Python 3.12 only", "Python 3.12"),
            ("node 20", "node 20"),
            ("release 1.2", "release 1.2"),
            ("PostgreSQL 16.1", "PostgreSQL 16.1"),
            ("build 1234", "build 1234"),
            ("Ubuntu 24.04", "Ubuntu 24.04"),
            ("版本v3.2", "版本v3.2"),
            ("版本号是2.0", "版本号是2.0"),
            ("升级到3.2版", "3.2版"),
            ("iOS 17.2系统", "iOS 17.2"),
            ("第三版", "第三版"),
            ("用的是v1.0.3。", "v1.0.3"),
            ("3.5 hours", ""),
            ("10.0.0.1", ""),
            ("a version of it", ""),
            ("1.5倍", ""),
            ("3.5小时", ""),
        ],
    );
}

#[test]
fn paths_of_both() {
    check(
        Kind::Path,
        &[
            ("in /srv/app/main.rs now", "/srv/app/main.rs"),
            ("open C:\\temp\\a.txt", "C:\\temp\\a.txt"),
            ("edit config.toml", "config.toml"),
            ("src/context/fit.rs", "src/context/fit.rs"),
            ("~/notes.txt", "~/notes.txt"),
            ("./run.sh", "./run.sh"),
            ("../lib/x.py", "../lib/x.py"),
            ("/etc/hosts", "/etc/hosts"),
            ("\\\\nas\\share\\x", "\\\\nas\\share\\x"),
            ("~/.config/app", "~/.config/app"),
            ("文件在/home/li/数据", "/home/li/"),
            ("打开report.pdf看看", "report.pdf"),
            ("修改src/main.rs。", "src/main.rs"),
            ("D:\\项目\\a.txt，", "D:\\项目\\a.txt"),
            ("and/or", ""),
            ("he said / she said", ""),
            ("24/7", ""),
            ("km/h", ""),
            ("是/否", ""),
        ],
    );
}

#[test]
fn names_and_codes_of_both() {
    check(
        Kind::Name,
        &[
            ("called \"Blue Heron\" today", "\"Blue Heron\""),
            ("the “Red Kite” project", "“Red Kite”"),
            ("run `cargo test` now", "`cargo test`"),
            ("\"a\" and \"b\"", "\"a\"|\"b\""),
            ("the book \"It's over\"", "\"It's over\""),
            ("书名《三体》", "《三体》"),
            ("叫「海鸥」的船", "「海鸥」"),
            ("『红楼』", "『红楼』"),
            ("“锦里客栈”很好", "“锦里客栈”"),
            ("【通知】", "【通知】"),
            ("it's John's", ""),
            ("5\" wide and", ""),
            ("\" not this \"", ""),
            ("《》", ""),
            ("没有引号", ""),
        ],
    );
    check(
        Kind::Code,
        &[
            ("it is JIRA-1234", "JIRA-1234"),
            ("see #4711", "#4711"),
            ("number 20260304", "20260304"),
            ("at 192.168.0.1:80", "192.168.0.1:80"),
            ("10.0.0.0/24", "10.0.0.0/24"),
            ("代码ABC123", "ABC123"),
            ("编码是 88213001", "88213001"),
            ("the year 2026", ""),
            ("# 1 thing", ""),
            ("A1", ""),
        ],
    );
}

#[test]
fn a_long_find_is_no_data() {
    assert!(found(&format!("https://x.test/{}", "a".repeat(200))).is_empty());
    assert!(found(&format!("\"{}\"", "word ".repeat(20))).is_empty());
}
