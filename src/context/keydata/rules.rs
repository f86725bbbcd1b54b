//! The rules, the more telling first.
//!
//! Word boundaries are ASCII, since the regex engine is slow on the others, and Chinese has none. No rule needs a group that captures.

use super::Kind;

pub(super) const RULES: &[(Kind, &str)] = &[
    (Kind::Url, r#"(?i-u:\b(?:https?|ftp|ssh|git|wss?)://)[^\s<>"'`\p{Han}，。；：、！？（））」』》”’|\\]+"#),
    (
        Kind::Url,
        r#"(?i-u:\bwww\.[a-z0-9-]+(?:\.[a-z0-9-]+)+|\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|cn|de|app|ai|gov|edu)\b/)[^\s<>"'`\p{Han}，。；：、！？（））」』》”’|\\]*"#,
    ),
    (Kind::Email, r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}"),
    // Numbers with the word that says what they are: with "number" or a mark, whatever follows that has a digit …
    (
        Kind::Reference,
        r"(?i-u:\b(?:order|ticket|invoice|case|reference|ref|booking|confirmation|reservation|tracking|account|contract|customer|member(?:ship)?|serial|issue|flight|room|policy|claim|part|po|pr|bug|job|license|licence|passport|model|id|sku)(?: (?:number|no\.?|nr\.?|id|code|ref|reference|key|#))?(?: (?:is|was):?|:| ?#| number| no\.?| code| id)[ #]{0,2}(?:[a-z]{0,6}[-/]?[0-9][a-z0-9/_-]*))",
    ),
    // … in capitals without any digit only behind an explicit word …
    (
        Kind::Reference,
        r"(?-u:\b)(?i-u:(?:booking|confirmation|reservation|tracking|reference)(?: (?:number|code|reference))?(?: is:?|:)?) (?-u:[A-Z][A-Z0-9]{4,9})(?-u:\b)",
    ),
    // … and without a word or a mark what is plainly a code or a long number.
    (
        Kind::Reference,
        r"(?i-u:\b(?:order|ticket|invoice|case|reference|ref|booking|tracking|account|contract|customer|serial|issue|flight|policy|claim|po|pr)(?: (?:number|no\.?|id|code))? (?:[a-z]{1,6}-?[0-9]{2,}[a-z0-9/_-]*|[0-9]{3,}[a-z0-9/_-]*)|\b(?:room|gate|flat|suite|seat) [a-z]?[0-9]{1,4}[a-z]?\b)",
    ),
    (
        Kind::Reference,
        r"(?:订单|工单|发票|快递|运单|物流|合同|客户|会员|航班|车次|房间|参考|案件|流水|序列|身份证|护照|银行卡|卡|账|帐|邮编|编|单|票|型)(?:编?号码?|号|编码)?(?:是|为|：|:)? ?#?[A-Za-z]{0,6}-?[0-9][A-Za-z0-9/_-]*",
    ),
    // Dates and times of day.
    (
        Kind::Date,
        r"(?-u:\b)[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?",
    ),
    (Kind::Date, r"(?-u:\b)[0-9]{4}[/.][0-9]{1,2}[/.][0-9]{1,2}(?-u:\b)"),
    (
        Kind::Date,
        r"(?:[0-9]{2,4} ?年 ?)?[0-9]{1,2} ?月 ?[0-9]{1,2} ?[日号]|[0-9]{4} ?年(?: ?[0-9]{1,2} ?月)?|(?:[〇零一二三四五六七八九]{4}年)?(?:农历)?(?:正|腊|十[一二]|[一二三四五六七八九十])月(?:初?[一二三四五六七八九十]{1,3})[日号]?",
    ),
    (
        Kind::Date,
        r"(?:上午|下午|早上|晚上|中午|凌晨|傍晚)?[0-9]{1,2} ?[点時时](?:半|一刻|三刻|[0-9]{1,2} ?分?)|(?:上午|下午|早上|晚上|中午|凌晨|傍晚)[0-9]{1,2}(?:[点时]|[:：][0-9]{2})",
    ),
    (
        Kind::Date,
        r"(?i-u:\b(?:jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec)(?:uary|ruary|il|e|y|ust|ember|tember|ober)?\.? [0-9]{1,2}(?:st|nd|rd|th)?\b(?:,? [0-9]{4}\b)?)|(?-u:\b)(?:Mar(?:ch)?|May)\.? [0-9]{1,2}(?:st|nd|rd|th)?(?-u:\b)(?:,? [0-9]{4}(?-u:\b))?|(?i-u:\b(?:march|may) [0-9]{1,2}(?:st|nd|rd|th|, [0-9]{4})\b)",
    ),
    (
        Kind::Date,
        r"(?i-u:\b[0-9]{1,2}(?:st|nd|rd|th)?\.? (?:of )?(?:january|february|march|april|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?(?:,? [0-9]{4}\b)?)|(?-u:\b)[0-9]{1,2}(?:st|nd|rd|th)?\.? (?:of )?(?:May|may [0-9]{4})(?-u:\b)(?:,? [0-9]{4}(?-u:\b))?",
    ),
    (
        Kind::Date,
        r"(?-u:\b)(?:January|February|March|April|May|June|July|August|September|October|November|December) (?:19|20)[0-9]{2}(?-u:\b)|(?-u:\b)Q[1-4] (?:19|20)[0-9]{2}(?-u:\b)",
    ),
    (Kind::Date, r"(?-u:\b)[0-9]{1,2}/[0-9]{1,2}/[0-9]{2,4}(?-u:\b)|(?-u:\b)[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}(?-u:\b)"),
    (
        Kind::Date,
        r"(?-u:\b)(?:[01]?[0-9]|2[0-3])[:：][0-5][0-9](?::[0-5][0-9])?(?: ?[AaPp]\.?[Mm](?-u:\b)\.?)?(?-u:\b)|(?-u:\b)(?:1[0-2]|0?[1-9]) ?[AaPp]\.?[Mm](?-u:\b)",
    ),
    // Amounts.
    (
        Kind::Amount,
        r"(?:(?-u:\b(?:US|HK|NZ|NT|[ACS]))?[$€£¥￥₹₩]|(?-u:\b)(?:USD|EUR|GBP|CNY|RMB|JPY|CHF|INR|HKD|AUD|CAD|SGD)|人民币|美金) ?[0-9](?:[0-9.,]*[0-9])?(?: ?(?:million|billion|thousand|bn|[kKmM])(?-u:\b)| ?[千万亿]+)?",
    ),
    (
        Kind::Amount,
        r"(?-u:\b)?[0-9](?:[0-9.,]*[0-9])?(?: ?(?:million|billion|thousand|[kKmM]))? ?(?:(?i-u:(?:USD|EUR|GBP|CNY|RMB|JPY|CHF|HKD|dollars?|euros?|pounds?|cents?|bucks|yuan|percent)\b)|[€£¥％%])",
    ),
    (
        Kind::Amount,
        r"[0-9](?:[0-9.,]*[0-9])? ?[千万亿]*(?:元|块钱|美元|美金|欧元|英镑|日元|港币|港元|人民币|块|毛|折)|[一二两三四五六七八九][一二两三四五六七八九十百千万亿零]*(?:元|块钱|美元|欧元|英镑|日元|港币)|百分之[0-9一二三四五六七八九十百点.]+",
    ),
    // Postal addresses.
    (
        Kind::Address,
        r"(?-u:\b)[0-9]{1,5}[A-Za-z]? (?:[NSEW]\.? )?(?:[A-Z][A-Za-z'’.-]* ){1,4}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Way|Court|Ct|Place|Pl|Square|Sq|Terrace|Close|Highway|Hwy)(?-u:\b)\.?(?: (?:NW|NE|SW|SE)(?-u:\b))?(?:,? (?:Apt|Apartment|Suite|Unit|Flat)\.? ?#?[0-9A-Za-z]{1,5}(?-u:\b))?(?:, [A-Z][A-Za-z.'’-]*(?: [A-Z][A-Za-z.'’-]*)*)?(?:,? [A-Z]{2} [0-9]{5}(?:-[0-9]{4})?)?",
    ),
    (
        Kind::Address,
        r"(?i-u:\bP\.?O\.? ?Box [0-9]+)|(?-u:\b)[A-Z][\p{Latin}-]*(?:straße|strasse|str\.|weg|platz|allee|gasse) [0-9]{1,4} ?[a-z]?(?-u:\b)(?:, [0-9]{5} \p{Lu}\p{Latin}+)?|(?-u:\b)[A-Z]{1,2}[0-9][A-Z0-9]? [0-9][A-Z]{2}(?-u:\b)",
    ),
    (
        Kind::Address,
        r"(?:\p{Han}{2,8}[省市区县])?(?:\p{Han}{2,12}[路街道巷弄镇村]|\p{Han}{2,8}[省市区县]\p{Han}{2,10}) ?[0-9]{1,5} ?[号弄幢栋](?:院|楼)?(?: ?[0-9]{1,3} ?[幢栋号]楼?)?(?: ?[0-9]{1,2} ?单元)?(?: ?[0-9]{1,5} ?[室楼层])?",
    ),
    // Phone numbers.
    (
        Kind::Phone,
        r"\+[0-9][0-9 ().-]{6,18}[0-9]|\([0-9]{2,5}\) ?[0-9][0-9 -]{4,12}[0-9]|(?-u:\b)1[3-9][0-9][ -]?[0-9]{4}[ -]?[0-9]{4}(?-u:\b)|(?-u:\b)[0-9]{3}[-. ][0-9]{3}[-. ][0-9]{4}(?-u:\b)|(?-u:\b)0[0-9]{2,4}[ /-][0-9]{3,4}[ -]?[0-9]{3,5}(?-u:\b)|(?-u:\b)[48]00-[0-9]{3}-?[0-9]{4}(?-u:\b)",
    ),
    // File paths.
    (
        Kind::Path,
        r#"(?:~|\.{1,2})(?:/[A-Za-z0-9_.@+-]+)+/?|(?:/[A-Za-z0-9_.@+-]+){2,}/?|(?-u:\b)[A-Za-z]:\\[^\s"'<>|，。]+|\\\\[A-Za-z0-9._-]+\\[^\s"'<>|，。]+"#,
    ),
    (
        Kind::Path,
        r"(?-u:\b)(?:[A-Za-z0-9_.@+-]+/)*[A-Za-z0-9_.-]*[A-Za-z0-9_-]\.(?:rs|py|js|mjs|tsx?|jsx|toml|ya?ml|json|md|txt|csv|pdf|docx?|xlsx?|pptx?|sql|sh|go|java|kt|swift|rb|php|c|h|cpp|hpp|cs|html?|css|scss|png|jpe?g|gif|svg|webp|mp[34]|zip|tar\.gz|gz|log|ini|cfg|conf|lock|env|ipynb|parquet|proto)(?-u:\b)",
    ),
    // Addresses of machines look like versions, so they come first.
    (Kind::Code, r"(?-u:\b)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{2,5}|/[0-9]{1,2})?(?-u:\b)"),
    // Versions.
    (
        Kind::Version,
        r"(?-u:\b)[vV]?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][A-Za-z0-9.]+)?(?-u:\b)|(?-u:\b)v[0-9]+(?:\.[0-9]+)*(?:-[a-z]+\.?[0-9]*)?(?-u:\b)|(?i-u:\b(?:version|release|build) v?[0-9][0-9a-z.]*(?:-[a-z0-9.]+)?)",
    ),
    (
        Kind::Version,
        r"(?i-u:\b(?:python|node(?:\.js)?|java|jdk|golang|rust|php|ruby|perl|ubuntu|debian|fedora|ios|ipados|android|macos|windows|postgres(?:ql)?|mysql|mariadb|sqlite|redis|mongodb|kubernetes|k8s|docker|django|rails|react|vue|angular|spring boot|chrome|firefox|safari|excel|office) v?[0-9]{1,4}(?:\.[0-9x]+)*)|版本(?:号)?(?:是|为|：|:)? ?[vV]?[0-9][0-9.]*|[0-9]+\.[0-9.]*[0-9] ?版本?|第[0-9一二三四五六七八九十]+版",
    ),
    // Numbers that look like names of things.
    (
        Kind::Code,
        r"(?-u:\b)[A-Z]{1,8}[-_]?[0-9]{2,}[A-Za-z0-9_-]*|#[0-9]{2,}(?-u:\b)|(?-u:\b)[0-9]{6,}(?-u:\b)|(?-u:\b)[0-9]{3,}-[0-9]{4,}-?[0-9]*(?-u:\b)",
    ),
    // Quoted names.
    (
        Kind::Name,
        "\"[^\"\\s][^\"\n]{0,59}\"|“[^”\n]{2,60}”|「[^」\n]{1,40}」|『[^』\n]{1,40}』|《[^》\n]{1,40}》|【[^】\n]{1,40}】|`[^`\n]{2,60}`",
    ),
];
