//! What people say of themselves, in Chinese.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{is_fleeting, is_fleeting_change};
use crate::base::Time;
use crate::memory::candidate::Intent;
use crate::memory::dates;
use crate::memory::normalise::{slug, tidy};
use crate::memory::propose::Finding;
use crate::memory::schema::ValueType;

/// Between a subject and its verb.
const ADVERBS: &str = "(?:现在|如今|目前|一直|常年|平时|已经|也|还是|还|都|很|非常|特别|超级|超|比较|更|真的|真|挺|十分|尤其|其实|刚|刚刚|最近|上个?月|去年|今年|上周|前年|前几天|终于|又|严重|重度|轻度|从小|天生|完全|绝对|基本|从来|主要|只|最近刚|这个?月|昨天|今天|这周|本周)*";
const RELATIVES: &str = "(?:我家)?(?:的)?(?P<rel>老婆|妻子|太太|爱人|丈夫|老公|女朋友|男朋友|未婚妻|未婚夫|妈妈|母亲|老妈|妈|爸爸|父亲|老爸|爸|哥哥|弟弟|姐姐|妹妹|哥|弟|姐|妹|大儿子|小儿子|儿子|大女儿|小女儿|女儿|孩子|宝宝|爷爷|奶奶|外公|外婆|姥姥|姥爷|叔叔|阿姨|舅舅|姑姑|岳父|岳母|公公|婆婆|表哥|表弟|表姐|表妹|堂哥|堂弟|侄子|侄女|外甥|孙子|孙女|猫咪?|狗狗?|宠物|鹦鹉|兔子|仓鼠)";
const OTHERS: &str = "好朋友|朋友|闺蜜|同事|老板|领导|经理|室友|舍友|邻居|同学|老师|客户|学生|徒弟|师傅|前任|医生";

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(&$pattern.replace("ADV", ADVERBS).replace("RELATIVES", RELATIVES).replace("OTHERS", OTHERS)).expect("tested")
        });)*
    };
}

patterns! {
    NAME = r"^(?:我的?(?:名字|姓名|全名|中文名|英文名)(?:就)?(?:是|叫|为|改成了?)|我(?:现在)?(?:的名字)?(?:名叫|叫做|叫作|叫)|(?:请|可以|你可以|大家都?|朋友们?都?|以后)*(?:叫|喊|称呼)我(?:为)?|本人姓名)([^的]{1,16})$";
    SET = r"^(?:请|麻烦|帮我|你|我)*把(?:我的?)?(?P<what>[^把]{1,8}?)(?P<verb>改成|换成)了?\s*(?:改为)?(?P<new>.+)$";
    BIRTHDAY = r"^我的?(?:农历|阳历)?生日(?:是|在|为)(.{2,20})$|^我(?:是)?(?:出生于|生于|出生在)(\d.{2,20}?)(?:出生)?$|^我是?(\d{2,4}年\d{1,2}月\d{1,2}[日号]?)(?:出生|生)的?$";
    EMAIL = r"^我的?(?:新|工作|个人|公司)?(?:的)?(?:邮箱|电子邮箱|电子邮件|邮件|email|Email)(?:地址)?(?:现在)?(?:是|为|:|\x{FF1A}|改成了?|换成了?)(.+)$";
    PHONE = r"^我的?(?:新|工作|联系)?(?:的)?(?:手机号码?|手机|电话号码?|联系电话|联系方式|号码)(?:现在)?(?:是|为|:|\x{FF1A}|改成了?|换成了?)\s*([+\d].+)$";
    MOVED = r"^(?:我们家|我家|我们|我)ADV(?:从(?P<from>.{1,12}?))?ADV(?:搬家到|搬到|搬去|搬来|搬至|搬回|移居到?|迁到|定居到|搬家去)了?(?P<to>.{1,30}?)(?:了|居住|生活|住了?|来了|去了)?$";
    HOME_ENDED = r"^我(?:已经)?(?:不再|不)(?:住|居住)在(.{1,24}?)(?:了)?$|^我(?:已经)?离开(.{1,16}?)了$";
    HOME = r"^(?:我们家|我家|我的家|我们|我)ADV(?:住在|居住在|定居在?|家住|住的地方是|生活在|家在|在)(.{1,30}?)(?:这边|那边)?(?:住|生活|定居|居住)?$|^我的?(?:家庭|新|现在的|收货|邮寄)?(?:的)?(?:地址|住址)(?:现在)?(?:是|为|:|\x{FF1A}|改成了?|换成了?)(.{2,60})$";
    HOME_VERB = r"住|居|定居|生活在|家在|地址";
    LIVE_FOR = r"^我ADV在(.{1,16}?)(?:住|生活|定居)(?:了|过)?(?:.{0,6}年|很久|.{0,4}个月)?了?$";
    EMPLOYER = r"^我ADV(?:在|为|给|于)(.{1,24}?)(?:这家公司|公司)?(?:工作|上班|任职|就职|打工|做事|干活)(?:了|.{0,6}年了?)?$|^我的?(?:公司|单位|雇主|东家)(?:现在)?(?:是|叫|为)(.{1,24})$";
    JOINED = r"^我ADV(?:跳槽到?了?|入职了?|加入了?|换到了?|去了)(.{1,24}?)(?:公司)?(?:工作|上班|任职)?了?$";
    LEFT = r"^我(?:已经|刚|刚刚|最近)*(?:从(.{1,20}?)(?:离职|辞职)了?|离开了?(.{1,20}?)(?:公司)了?|不在(.{1,20}?)(?:工作|上班)了)$";
    QUIT = r"^我(?:已经|刚|刚刚|最近)*(?:辞职|离职|失业|被裁)了$";
    ROLE_IN = r"^我ADV在(.{1,20}?)(?:当|做|担任|任)(?:一名|一个|一位|名|个)?(.{1,14})$";
    ROLE = r"^我ADV(?:是|做|当|从事|担任)(?:一名|一个|一位|名|个|位)?(.{0,14}?(?:工程师|程序员|设计师|老师|教师|医生|护士|律师|会计师?|经理|学生|研究生|博士生|教授|记者|编辑|厨师|司机|销售|产品经理|架构师|分析师|咨询师|顾问|作家|画家|摄影师|翻译|公务员|警察|军人|消防员|农民|工人|店长|老板|创始人|主管|总监|助理|秘书|研究员|科学家|音乐人|演员|导演|教练|导游|空姐|飞行员|药剂师|牙医|兽医|建筑师|运营|客服|人事|财务|开发者|开发|外卖员|快递员|自由职业者?|全职妈妈|实习生))(?:的?工作)?$|^我的?(?:职业|职位|岗位|工作)(?:现在)?(?:是|为)(.{1,16})$";
    ROLE_CHANGED = r"^我ADV(?:升职?(?:为|成|到)了?|晋升为?了?|转岗(?:为|到|做)|成为了?|改行做了?|转行做了?)(.{1,16}?)了?$";
    RELATIVE_NAME = r"^(?:我|我们|我家)RELATIVES(?:的名字)?(?:是叫|叫做|名叫|叫|名字是|的名字是)(?P<name>[^的]{1,12})$";
    HAVE_RELATIVE = r"^(?:我|我们|我家)(?:有|养了?)(?:一|两|二|三|个|只|条|位|名|了)*(?P<rel>儿子|女儿|孩子|猫咪?|狗狗?|哥哥|弟弟|姐姐|妹妹|兔子|仓鼠|鹦鹉)(?:[,\x{FF0C}])?(?:分别)?(?:叫做|名叫|叫)(?P<name>.{1,20})$";
    ALLERGY = r"^我(?P<how>ADV)对(?P<to>.{1,30}?)(?P<how2>严重|重度|轻度|会|有|非常|特别|极度|很|都)*(?:的)?过敏$|^我(?P<how3>ADV)(?:有)?(?P<how4>严重的?)?(?P<to2>[^对有的]{1,10})过敏(?:症)?$|^我的?过敏(?:原|源|史)(?:是|有|包括|为)(?P<to3>.{1,30})$";
    ALLERGY_ENDED = r"^我(?:现在)?(?:已经)?(?:不再|不)对(.{1,20}?)过敏了?$|^我对(.{1,20}?)(?:已经)?(?:不再|不)过敏了?$|^我的?(.{1,10}?)过敏(?:已经)?(?:好|治好|痊愈)了$";
    DIET = r"^我ADV(?:是|变成了?|成了|开始)?(?:一个|一名|个|名|位)?(?P<diet>纯素食主义者|素食主义者|素食者|纯素者?|吃素食?|吃纯素|蛋奶素|吃斋|乳糖不耐受?|乳糖不耐症|麸质不耐受?|吃清真|清真饮食|穆斯林饮食|生酮饮食|低碳饮食|低糖饮食|低盐饮食|无麸质饮食|吃蛋奶素)(?:的|了|者)?$";
    NO_EAT = r"^我ADV(?:不能|不可以|不|从不|没法|戒了?)(?:吃|喝|碰|沾)(?P<what>.{1,24}?)(?:的)?$";
    DIET_ENDED = r"^我(?:现在)?(?:已经)?(?:不再|不)(?:是)?(?P<diet>吃素|素食者|素食主义者|纯素|吃纯素|生酮饮食)(?:了)?$|^我(?:现在)?(?:又|重新|开始)(?:可以)?(?:吃|能吃)(?P<again>.{1,12}?)了$";
    CONDITION = r"^我ADV(?:有|患有|患了|得了|得过|确诊(?:了|为|患有)?|被诊断(?:为|出|患有)|查出)(?:了|有)?(?P<what>.{0,10}?(?:糖尿病|高血压|低血压|哮喘|心脏病|关节炎|癫痫|偏头痛|抑郁症|焦虑症|多动症|自闭症|贫血|失眠症?|甲亢|甲减|痛风|湿疹|鼻炎|胃炎|肝炎|肾炎|乙肝|高血脂|冠心病|脂肪肝|脊椎侧弯|腰椎间盘突出|颈椎病|糖尿病前期|[\p{Han}]{1,6}(?:病|症|炎|癌)))(?:了)?$|^我(?:是)?(?P<is>色盲|色弱|聋人|盲人|1型糖尿病患者|2型糖尿病患者|糖尿病患者|高血压患者)$";
    CONDITION_ENDED = r"^我的?(?P<what>[\p{Han}]{1,8}(?:病|症|炎|血压))(?:已经)?(?:好|治好|痊愈|康复)了$|^我(?:已经)?(?:不再|没)有(?P<what2>[\p{Han}]{1,8}(?:病|症|炎|血压))了$";
    MEDICATION = r"^我ADV(?:在|正在|每天|每周|每晚|长期|需要|要|一直)*(?:吃|服用|服|注射|打|用)(?:着)?(?P<what>.{0,12}?(?:二甲双胍|胰岛素|阿司匹林|布洛芬|华法林|降压药|抗抑郁药|避孕药|优甲乐|他汀|维生素.?|[\p{Han}]{1,8}(?:片|胶囊|颗粒|缓释片|注射液|口服液|药)))$";
    MEDICATION_ENDED = r"^我(?:已经)?(?:不再|停止|停)(?:吃|服用|用)?(?P<what>.{1,14}?)(?:了)?$";
    FAVOURITE = r"^我最(?:喜欢|爱|喜爱|爱吃|爱喝|爱看|爱听)(?:吃|喝|看|听|用|去)?的(?P<topic>.{1,8}?)(?:现在)?(?:是|就是|变成了?|改成了?)(?P<value>.{1,24})$";
    LIKE = r"^我(?P<adverbs>ADV|现在)*(?P<verb>最喜欢|不太喜欢|不怎么喜欢|不再喜欢|不喜欢|喜欢|喜爱|热爱|钟爱|偏爱|偏好|更喜欢|酷爱|爱好|爱|讨厌|厌恶|憎恨|恨|受不了|不爱|反感)(?P<act>吃|喝|看|听|玩|用|去|打|坐|住|做)?(?P<what>.{1,24}?)(?:了)?$";
    PREFER = r"^(?:比起|相比|相比于|和)(?P<less>.{1,10}?)(?:相比)?(?:[,\x{FF0C}])?我(?:更|比较)(?:喜欢|爱|偏好)(?P<more>.{1,12})$";
    LANGUAGE = r"^我的?(?:母语|首选语言|第一语言)(?:是|为)(.{2,6})$|^我(?:只|主要|平时)(?:会)?(?:说|讲|用)(中文|英文|英语|汉语|普通话|粤语|日语|法语|德语|西班牙语|韩语|俄语)$";
    TIME_ZONE = r"^我的?时区(?:是|为|在)(.{2,16})$|^我(?:现在)?(?:在|处于)(东.{1,2}区|西.{1,2}区|北京时间|UTC.{1,4}|GMT.{1,4})(?:时区)?$";
    ORDER = r"(?:我的?|这个|该)?(?:的)?订单(?:编号|号码|号)?(?:是|为|:|\x{FF1A}|\s)*(?P<id>[A-Za-z]{0,6}-?\d[A-Za-z0-9-]{2,24})";
    DEVICE = r"^我的?(?:新|工作|主力)?(?P<kind>手机|电脑|笔记本(?:电脑)?|平板(?:电脑)?|手表|相机|车|汽车)(?:现在)?(?:用的)?(?:是|换成了?|为)(?:一(?:台|部|辆|个|款))?(?P<what>.{1,24})$|^我(?:现在|平时|主要|一直)*(?:用的(?:是)?|用|使用|开的是|开)(?:着)?(?:一(?:台|部|辆|个|款))?(?P<what2>.{0,6}?(?:iPhone|MacBook|iPad|ThinkPad|华为|小米|三星|特斯拉|比亚迪|丰田|本田|宝马|奔驰|奥迪|大众).{0,16})$|^我(?:刚|新|最近|刚刚)?(?:买了?|换了?|入手了?)(?:一(?:台|部|辆|个|款))(?P<what3>.{1,24})$";
    SOLD = r"^我(?:已经|刚|刚刚|最近)?(?:把)?(?:我的)?(?P<what>.{1,12}?)(?:给)?(?:卖|送人|处理|扔|转让)(?:掉)?了$|^我(?:已经|刚|刚刚|最近)?(?:卖|送|扔)(?:掉)?了(?:我的)?(?P<what2>.{1,12})$";
    PROJECT = r"^(?:我们?的?|咱们的?|这个)?(?:公司|团队|组|新)?(?:的)?(?:项目|仓库|代码库|后端|前端|服务|系统|团队|网站|应用|产品)(?:里|中|上)?(?P<adv>ADV|统一|全部|都是|基于)*(?P<verb>用的是|使用的是|使用|采用|用|部署在|跑在|改用|换成|换用|迁移到|切换到|改成|不再使用|不再用|弃用)了?(?P<what>[\p{L}\p{N}.+#\s-]{1,24}?)(?:(?:做|作为|来做|当|写|开发|编写|进行|管理|写的|做的).{0,12})?(?:了)?$|^我们(?P<verb2>用|使用|采用|改用|换成了?|迁移到了?|切换到了?|从.{1,16}?(?:换成|迁移到|改用|切换到)了?)(?P<what2>[A-Za-z][\w.+#\s-]{0,24}?)(?:(?:做|作为|来做|当|写|开发|管理|写的|做的).{0,12})?(?:了)?$";
    PROJECT_NAME = r"^(?:我|我们)的?(?:新)?(?:项目|产品|公司|团队|应用)(?:的名字)?(?:叫|叫做|名叫|的名字是|名称是)(.{1,20})$";
    SCHEDULE = r"^我(?:通常|一般|都|会|固定)*(?P<when>每(?:天|日|周|个?星期|礼拜|月|晚|年|隔.{1,3})(?:[一二三四五六日天\d])?(?:早上|上午|中午|下午|晚上|晚|早)?(?:[\d一二三四五六七八九十两]{1,3}点半?)?(?:都|会|要)?)(?:有|要|去|都|上|做|参加|练|打|跑|开)*(?P<what>.{1,16})$";
    APPOINTMENT = r"^我的?(?P<what>.{0,8}?(?:预约|考试|面试|航班|会议|婚礼|手术|体检|旅行|聚会|演唱会|毕业典礼|答辩|火车|高铁|婚期|预产期|截止日期))(?:是|在|定在|改到了?|安排在|约在)(?P<when>.+)$";
    ANOTHER = r"^(?:我|我们|我家)(?:的)?(?:RELATIVES|(?P<other>OTHERS))(?P<name>[\p{Han}A-Za-z·]{0,8}?)(?P<rest>(?:ADV(?:对.{1,20}过敏|不喜欢|不再喜欢|最喜欢|更喜欢|喜欢|讨厌|热爱|爱(?:吃|喝|看|听)?|住在|搬到|搬去|在.{1,20}(?:工作|上班|任职|当|做|住)|不吃|不能吃|不喝|吃素|是(?:一名|一个|一位|个|名)?.{1,16}|有(?:糖尿病|高血压|哮喘|[\p{Han}]{1,6}(?:病|症))|患有|的生日是|的(?:电话|手机号|邮箱)(?:是|为)|生日是|乳糖不耐)).*)$";
    WE = r"^我(?:和|跟|与)(?:我(?:的)?)?(?:老婆|妻子|太太|丈夫|老公|女朋友|男朋友|家人|父母|孩子|室友|.{1,4}?)(?:一起|都|现在)*(?P<rest>(?:住在|搬到|搬去|居住在|养了).+)$";
}

type Out<'a> = &'a mut Vec<Finding>;

/// Whether a clause that begins with 我 is about someone else.
pub(super) fn is_about_another(clause: &str) -> bool {
    ANOTHER.is_match(clause) || RELATIVE_NAME.is_match(clause)
}

/// The clause as its subject would say it, and who that is; nobody, when the speaker is one of them.
pub(super) fn as_first_person(clause: &str) -> Option<(Option<String>, String)> {
    if !clause.starts_with('我') || RELATIVE_NAME.is_match(clause) {
        return None;
    }
    if let Some(found) = WE.captures(clause) {
        return Some((None, format!("我{}", &found["rest"])));
    }
    let found = ANOTHER.captures(clause)?;
    let relation = found.name("rel").or_else(|| found.name("other"))?.as_str();
    Some((Some(format!("{relation}{}", &found["name"])), format!("我{}", &found["rest"])))
}

fn group<'t>(pattern: &Regex, clause: &'t str) -> Option<&'t str> {
    let found = pattern.captures(clause)?;
    found.iter().skip(1).flatten().find(|m| !m.is_empty()).map(|m| m.as_str())
}

/// Without the particles that close a sentence.
fn bare(text: &str) -> &str {
    text.trim().trim_end_matches([
        '了', '啊', '呀', '哦', '啦', '吧', '呢', '哈', '喔', '~', '\u{ff5e}', '\u{ff01}', '。', '!', '.',
    ])
}

fn value(text: &str) -> Option<String> {
    tidy(bare(text), ValueType::Text)
}

fn put(key: &str, value: Option<String>, intent: Intent, out: Out<'_>) {
    if let Some(value) = value {
        out.push(Finding::new(key, value).intent(intent));
    }
}

pub(super) fn find(clause: &str, out: Out<'_>) {
    // "把我的地址改成…" says "我的地址改成…".
    let changed =
        SET.captures(clause).map(|found| format!("我的{}{}{}", &found["what"], &found["verb"], &found["new"]));
    let clause = bare_end(changed.as_deref().unwrap_or(clause));
    order(clause, out);
    for rules in [identity, diet, health, place_and_work, family, things, preference] {
        if out.is_empty() {
            rules(clause, out);
        }
    }
}

fn bare_end(clause: &str) -> &str {
    clause
        .trim()
        .trim_end_matches(['啊', '呀', '哦', '啦', '吧', '呢', '哈', '喔', '~', '\u{ff5e}', '\u{ff01}', '!', '。'])
}

fn order(clause: &str, out: Out<'_>) {
    if let Some(found) = ORDER.captures(clause) {
        out.push(Finding::new("order.id", &found["id"]));
    }
}

fn identity(clause: &str, out: Out<'_>) {
    let changed = if clause.contains("改成") || clause.contains("换成") || clause.contains("现在") {
        Intent::Change
    } else {
        Intent::State
    };
    if let Some(name) = group(&NAME, clause) {
        let vague = ["你", "它", "他", "她", "什么", "了", "起床", "一声", "外卖", "车", "一下", "来", "去", "做"];
        let name = ["就可以", "就行", "就好", "吧"].iter().find_map(|end| bare(name).strip_suffix(end)).unwrap_or(name);
        let name = value(name).filter(|n| n.chars().count() <= 16 && !vague.iter().any(|v| n.starts_with(v)));
        put("identity.name", name, changed, out);
    } else if let Some(text) = group(&BIRTHDAY, clause) {
        let text =
            value(text).filter(|t| t.contains(|c: char| c.is_ascii_digit() || "一二三四五六七八九十正腊".contains(c)));
        put("identity.birthday", text, changed, out);
    } else if let Some(text) = group(&EMAIL, clause) {
        put("contact.email", tidy(text, ValueType::Email), changed, out);
    } else if let Some(text) = group(&PHONE, clause) {
        put("contact.phone", tidy(text, ValueType::Phone), changed, out);
    } else if let Some(text) = group(&LANGUAGE, clause) {
        put("language.preferred", value(text), changed, out);
    } else if let Some(text) = group(&TIME_ZONE, clause) {
        put("time.zone", value(text), changed, out);
    }
}

fn place(text: &str) -> Option<String> {
    let text = bare(text);
    let text = text.strip_suffix("这边").or_else(|| text.strip_suffix("那边")).unwrap_or(text);
    let vague = [
        "这", "那", "你", "一起", "家", "学校", "外面", "朋友", "宿舍", "酒店", "公司", "哪", "新家", "别的", "一个",
        "医院", "这里", "那里", "梦", "考虑", "想", "找", "学", "做", "写", "看", "用", "等", "减肥", "纠结",
    ];
    let first_vague = vague.iter().any(|v| text.starts_with(v));
    tidy(text, ValueType::Place).filter(|_| !first_vague)
}

fn place_and_work(clause: &str, out: Out<'_>) {
    if let Some(found) = MOVED.captures(clause) {
        if !is_fleeting_change(clause) {
            put("location.home", place(&found["to"]), Intent::Change, out);
        }
    } else if QUIT.is_match(clause) {
        out.push(Finding::new("work.employer", Value::Null).intent(Intent::Retract));
    } else if let Some(text) = group(&LEFT, clause) {
        put("work.employer", value(text), Intent::Retract, out);
    } else if let Some(text) = group(&HOME_ENDED, clause).filter(|_| clause.contains('住')) {
        put("location.home", place(text), Intent::Retract, out);
    } else if let Some(text) = group(&JOINED, clause) {
        let vague = ["你", "我", "一个", "这", "那", "医院", "超市", "公园", "厕所", "学校", "健身房", "购物车"];
        let text = value(text).filter(|t| !vague.iter().any(|v| t.starts_with(v)));
        let named = clause.contains("跳槽")
            || clause.contains("入职")
            || (clause.contains("加入") && text.as_ref().is_some_and(|t| !t.contains('群')));
        let named = named || clause.contains("上班") || clause.contains("工作");
        put("work.employer", text.filter(|_| named), Intent::Change, out);
    } else if let Some(text) = group(&ROLE_CHANGED, clause) {
        put("work.role", value(text).filter(|t| t.chars().count() <= 10), Intent::Change, out);
    } else if let Some(text) = group(&ROLE, clause) {
        let changed = if clause.contains("现在") { Intent::Change } else { Intent::State };
        put("work.role", value(text), changed, out);
    } else if is_fleeting(clause) {
    } else if let Some(found) = ROLE_IN.captures(clause) {
        let (at, role) = (&found[1], &found[2]);
        put("work.role", value(role).filter(|r| r.chars().count() >= 2), Intent::State, out);
        if !out.is_empty() {
            workplace(at, out);
        }
    } else if let Some(text) = group(&EMPLOYER, clause) {
        workplace(text, out);
    } else if let Some(text) = group(&LIVE_FOR, clause) {
        put("location.home", place(text), Intent::State, out);
    } else if let Some(text) = group(&HOME, clause).filter(|_| HOME_VERB.is_match(clause)) {
        let now = clause.contains("现在") || clause.contains("改成") || clause.contains("换成");
        put("location.home", place(text), if now { Intent::Change } else { Intent::State }, out);
    }
}

/// "在上海工作" is a place, "在腾讯工作" an employer.
fn workplace(text: &str, out: Out<'_>) {
    const CITIES: &str = " 北京 上海 广州 深圳 杭州 南京 成都 重庆 武汉 西安 苏州 天津 长沙 郑州 青岛 大连 厦门 宁波 无锡 合肥 福州 济南 昆明 沈阳 哈尔滨 长春 石家庄 南昌 贵阳 南宁 太原 珠海 东莞 佛山 香港 澳门 台北 高雄 新加坡 东京 大阪 首尔 纽约 伦敦 巴黎 柏林 旧金山 西雅图 洛杉矶 悉尼 墨尔本 多伦多 温哥华 硅谷 ";
    let Some(text) = value(text).filter(|t| {
        !["家", "外面", "这", "那", "一家", "一个", "互联网", "国企", "外企", "政府", "学校", "医院", "银行"]
            .iter()
            .any(|v| t.starts_with(v))
    }) else {
        return;
    };
    let place = CITIES.contains(&format!(" {text} "))
        || ["市", "省", "区", "县", "镇", "路", "街", "国"]
            .iter()
            .any(|e| text.ends_with(e) && text.chars().count() > 1);
    out.push(Finding::new(if place { "location.work" } else { "work.employer" }, text));
}

fn members(text: &str) -> Vec<String> {
    bare(text)
        .split(['、', '和', '跟', '与', '及', '/'])
        .filter_map(value)
        .filter(|v| v.chars().count() <= 12)
        .take(8)
        .collect()
}

fn diet(clause: &str, out: Out<'_>) {
    if let Some(text) = group(&ALLERGY_ENDED, clause) {
        // "我对X不过敏" alone only denies; 了 and 不再 say that it changed.
        if clause.contains("不再") || clause.ends_with('了') {
            for member in members(text) {
                out.push(Finding::new("diet.allergy", member).intent(Intent::Retract));
            }
        }
    } else if clause.contains("不过敏") || clause.contains("没有过敏") || clause.contains("不会过敏") {
    } else if let Some(found) = ALLERGY.captures(clause) {
        let Some(to) = ["to", "to2", "to3"].iter().find_map(|n| found.name(n)) else { return };
        let severe =
            clause.contains("严重") || clause.contains("重度") || clause.contains("极度") || clause.contains("非常");
        for member in members(to.as_str().trim_end_matches(['严', '重', '会', '都', '很']))
            .into_iter()
            .filter(|m| !["什么", "它", "这个", "那个", "皮肤", "严重", "你"].contains(&m.as_str()))
        {
            let finding = Finding::new("diet.allergy", member);
            out.push(if severe { finding.tag("severe") } else { finding });
        }
    } else if let Some(found) = DIET_ENDED.captures(clause) {
        if let Some(diet) = found.name("diet").filter(|_| clause.contains("不再") || clause.ends_with('了')) {
            put("diet.restriction", value(diet.as_str()), Intent::Retract, out);
        } else if let Some(again) = found.name("again") {
            put("diet.restriction", value(again.as_str()).map(|v| format!("不吃{v}")), Intent::Retract, out);
        }
    } else if is_fleeting(clause) {
    } else if let Some(found) = DIET.captures(clause) {
        put("diet.restriction", value(&found["diet"]), Intent::State, out);
    } else if let Some(found) = NO_EAT.captures(clause) {
        let vague = [
            "早饭", "早餐", "午饭", "晚饭", "饭", "这", "那", "它", "下", "完", "了", "惯", "太多", "多", "你", "什么",
        ];
        let verb = if clause.contains('喝') { "不喝" } else { "不吃" };
        let what = found["what"].replace("也不吃", "、").replace("也不喝", "、").replace("或", "、");
        for member in members(&what).into_iter().filter(|m| !vague.iter().any(|v| m.starts_with(v))) {
            put("diet.restriction", Some(format!("{verb}{member}")), Intent::State, out);
        }
    }
}

fn health(clause: &str, out: Out<'_>) {
    if let Some(text) = group(&CONDITION_ENDED, clause) {
        put("health.condition", value(text), Intent::Retract, out);
    } else if let Some(text) = group(&CONDITION, clause) {
        // "我有糖尿病和高血压": each part is one, or the whole is.
        let parts = members(text);
        let each = parts.iter().all(|part| CONDITION.is_match(&format!("我有{part}")));
        for found in if each { parts } else { value(text).into_iter().collect() } {
            let found = Some(found).filter(|v| !v.starts_with('没') && !v.contains("毛病"));
            put("health.condition", found, Intent::State, out);
        }
    } else if let Some(found) = MEDICATION.captures(clause) {
        let text = value(&found["what"]).filter(|v| !["药", "中药", "感冒药", "一片药"].contains(&v.as_str()));
        put("health.medication", text, Intent::State, out);
    } else if let Some(text) =
        group(&MEDICATION_ENDED, clause).filter(|t| clause.contains("服用") || t.contains('药') || t.contains('片'))
    {
        put("health.medication", value(text), Intent::Retract, out);
    }
}

fn family(clause: &str, out: Out<'_>) {
    if let Some(found) = RELATIVE_NAME.captures(clause) {
        put(&format!("family.{}", relative(&found["rel"])), value(&found["name"]), Intent::State, out);
    } else if let Some(found) = HAVE_RELATIVE.captures(clause) {
        for name in members(&found["name"]) {
            put(&format!("family.{}", relative(&found["rel"])), Some(name), Intent::State, out);
        }
    }
}

fn relative(word: &str) -> &str {
    match word {
        "老婆" | "妻子" | "太太" | "爱人" => "wife",
        "丈夫" | "老公" => "husband",
        "女朋友" => "girlfriend",
        "男朋友" => "boyfriend",
        "未婚妻" | "未婚夫" => "fiance",
        "妈妈" | "母亲" | "老妈" | "妈" => "mother",
        "爸爸" | "父亲" | "老爸" | "爸" => "father",
        "哥哥" | "弟弟" | "哥" | "弟" => "brother",
        "姐姐" | "妹妹" | "姐" | "妹" => "sister",
        "儿子" | "大儿子" | "小儿子" => "son",
        "女儿" | "大女儿" | "小女儿" => "daughter",
        "孩子" | "宝宝" => "child",
        "爷爷" | "外公" | "姥爷" => "grandfather",
        "奶奶" | "外婆" | "姥姥" => "grandmother",
        "猫" | "猫咪" => "cat",
        "狗" | "狗狗" => "dog",
        "宠物" => "pet",
        "鹦鹉" => "parrot",
        "兔子" => "rabbit",
        "仓鼠" => "hamster",
        other => other,
    }
}

fn things(clause: &str, out: Out<'_>) {
    if let Some(text) = group(&PROJECT_NAME, clause) {
        put("project.name", value(text), Intent::State, out);
    } else if let Some(found) = PROJECT.captures(clause) {
        let (Some(verb), Some(what)) =
            (found.name("verb").or_else(|| found.name("verb2")), found.name("what").or_else(|| found.name("what2")))
        else {
            return;
        };
        let what = what.as_str().trim();
        let kind = super::super::english::tool_kind(what);
        let named = what.chars().any(|c| c.is_ascii_alphabetic());
        let key = kind.map_or_else(|| "project.tool".to_owned(), |k| format!("project.{k}"));
        let verb = verb.as_str();
        let intent = if verb.contains("不再") || verb.contains("弃") {
            Intent::Retract
        } else if ["改", "换", "迁移", "切换"].iter().any(|v| verb.contains(v)) {
            Intent::Change
        } else {
            Intent::State
        };
        if kind.is_some() || (named && intent == Intent::State) {
            put(&key, value(what), intent, out);
        }
    } else if let Some(found) = DEVICE.captures(clause).filter(|_| !is_fleeting_change(clause)) {
        let Some(what) = ["what", "what2", "what3"].iter().find_map(|n| found.name(n)) else { return };
        let named = what.as_str().chars().any(|c| c.is_ascii_alphanumeric()) || BRANDS.is_match(what.as_str());
        let kind = found.name("kind").map_or_else(|| device(what.as_str()), |k| device(k.as_str()));
        let changed = clause.contains('换') || clause.contains('买') || clause.contains("现在");
        if let Some(kind) = kind.filter(|_| named) {
            put(
                &format!("device.{kind}"),
                value(what.as_str()),
                if changed { Intent::Change } else { Intent::State },
                out,
            );
        }
    } else if let Some(text) = group(&SOLD, clause) {
        let text = bare(text).trim_start_matches("那辆").trim_start_matches("那台").trim_start_matches('旧');
        if let Some(kind) = device(text) {
            let generic = ["车", "汽车", "车子", "手机", "电脑", "笔记本", "平板", "相机", "手表"].contains(&text);
            let value = if generic { Value::Null } else { Value::from(text) };
            out.push(Finding::new(format!("device.{kind}"), value).intent(Intent::Retract));
        }
    } else if let Some(found) = APPOINTMENT.captures(clause)
        && dates::find(&found["when"], Time(0)).is_some()
        && let Some(end) = slug(&found["what"], 3)
    {
        put(&format!("schedule.{end}"), value(&found["when"]), Intent::State, out);
    } else if let Some(found) = SCHEDULE.captures(clause).filter(|_| !is_fleeting(clause)) {
        let when = &found["when"];
        let what = value(found["what"].trim_start_matches(['都', '会', '要', '有', '去', '上']));
        // Every day is when habits are; a weekday or an hour makes it a date.
        let dated = when.contains(|c: char| c.is_ascii_digit() || "一二三四五六点".contains(c))
            || when.ends_with("周日")
            || when.contains("晚上")
            || when.contains("早上");
        if let Some(what) = what.filter(|_| dated)
            && let Some(end) = slug(&what, 3)
        {
            let when = when.trim_end_matches(['都', '会', '要']);
            out.push(Finding::new(format!("schedule.{end}"), format!("{when}{what}")));
        }
    }
}

patterns! {
    BRANDS = "苹果|华为|小米|三星|荣耀|特斯拉|比亚迪|丰田|本田|宝马|奔驰|奥迪|大众|联想|戴尔|佳能|尼康|索尼|蔚来|理想|小鹏|红米|一加|维沃|沃尔沃|福特|马自达";
}

fn device(what: &str) -> Option<&'static str> {
    const KINDS: [(&str, &[&str]); 6] = [
        ("phone", &["手机", "iPhone", "华为", "小米", "荣耀", "红米", "一加", "Mate", "Pixel"]),
        ("laptop", &["笔记本", "MacBook", "ThinkPad", "联想"]),
        ("tablet", &["平板", "iPad"]),
        ("watch", &["手表", "Watch"]),
        ("camera", &["相机", "佳能", "尼康"]),
        (
            "car",
            &[
                "车",
                "特斯拉",
                "比亚迪",
                "丰田",
                "本田",
                "宝马",
                "奔驰",
                "奥迪",
                "大众",
                "蔚来",
                "理想",
                "小鹏",
                "沃尔沃",
                "福特",
                "马自达",
            ],
        ),
    ];
    if what.starts_with("电脑") || what.contains("台式机") {
        return Some("computer");
    }
    KINDS.iter().find(|(_, names)| names.iter().any(|n| what.contains(n))).map(|(kind, _)| *kind)
}

fn preference(clause: &str, out: Out<'_>) {
    if is_fleeting(clause) {
        return;
    }
    if let Some(found) = FAVOURITE.captures(clause) {
        let topic = match &found["topic"] {
            "颜色" => "color",
            "食物" | "菜" => "food",
            "电影" => "movie",
            "歌" | "歌曲" => "song",
            "书" => "book",
            "运动" => "sport",
            "水果" => "fruit",
            "饮料" => "drink",
            other => other,
        };
        if let (Some(end), Some(text)) = (slug(topic, 3), value(&found["value"])) {
            out.push(Finding::new(format!("preference.{end}"), text));
        }
        return;
    }
    if let Some(found) = PREFER.captures(clause) {
        if let (Some(more), Some(less)) = (value(&found["more"]), value(&found["less"])) {
            let (a, b) = if more < less { (&more, &less) } else { (&less, &more) };
            if let (Some(a), Some(b)) = (slug(a, 2), slug(b, 2)) {
                out.push(Finding::new(format!("preference.{a}_or_{b}"), more));
            }
        }
        return;
    }
    let Some(found) = LIKE.captures(clause) else { return };
    let verb = &found["verb"];
    let act = found.name("act").map_or("", |m| m.as_str());
    let vague = [
        "你", "这", "那", "它", "他", "她", "一下", "上", "上了", "的", "我", "什么", "自己", "某", "过", "死", "不了",
        "第", "上一", "下一", "前一", "后一", "前面", "后面", "刚才", "之前", "以上",
    ];
    let negative = verb.starts_with('不') || ["讨厌", "厌恶", "憎恨", "恨", "受不了", "反感"].contains(&verb);
    let shown = match verb {
        "不再喜欢" => "不再喜欢",
        "讨厌" | "厌恶" | "憎恨" | "恨" | "反感" => "讨厌",
        "受不了" => "受不了",
        _ if negative => "不喜欢",
        _ => "喜欢",
    };
    let change = clause.starts_with("我现在") || verb == "不再喜欢" || (negative && clause.ends_with('了'));
    for member in members(&found["what"]) {
        if vague.iter().any(|v| member.starts_with(v))
            || member.ends_with("的时候")
            || member.contains("回答") && !negative && member.chars().count() > 8
        {
            continue;
        }
        if let Some(end) = slug(&member, 3) {
            // The verb in it ("喜欢吃辣") belongs to the value; the topic is what it is about.
            let act = if shown == "喜欢" || negative { act } else { "" };
            let finding = Finding::new(format!("preference.{end}"), format!("{shown}{act}{member}"));
            out.push(if change { finding.intent(Intent::Change) } else { finding });
        }
    }
}
