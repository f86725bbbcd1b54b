//! Headings: what stands under `Context:` is not the user's own, what stands under `Question:` is.

pub(super) enum Heading {
    /// What follows is the user's own.
    Question,
    /// What follows is not.
    Foreign,
}

const QUESTION_LABELS: [&str; 21] = [
    "question",
    "user question",
    "my question",
    "query",
    "user query",
    "request",
    "user request",
    "user input",
    "user message",
    "message",
    "问题",
    "用户问题",
    "我的问题",
    "提问",
    "用户提问",
    "请求",
    "用户输入",
    "about me",
    "关于我",
    "user's question",
    "the question",
];

const FOREIGN_LABELS: [&str; 96] = [
    "context",
    "document",
    "documents",
    "doc",
    "docs",
    "article",
    "passage",
    "passages",
    "text",
    "source",
    "sources",
    "reference",
    "references",
    "background",
    "background information",
    "email",
    "e-mail",
    "mail",
    "letter",
    "transcript",
    "conversation",
    "chat history",
    "history",
    "chat log",
    "example",
    "examples",
    "few-shot examples",
    "sample",
    "knowledge",
    "knowledge base",
    "search results",
    "results",
    "retrieved",
    "retrieved documents",
    "retrieved context",
    "retrieved passages",
    "excerpt",
    "snippet",
    "snippets",
    "content",
    "page content",
    "web page",
    "quote",
    "review",
    "reviews",
    "story",
    "profile",
    "bio",
    "resume",
    "cv",
    "output",
    "tool output",
    "observation",
    "system",
    "instructions",
    "rules",
    "guidelines",
    "data",
    "memory",
    "memories",
    "previous conversation",
    "资料",
    "参考资料",
    "文档",
    "上下文",
    "背景",
    "背景资料",
    "参考",
    "原文",
    "文章",
    "邮件",
    "示例",
    "例子",
    "内容",
    "对话记录",
    "聊天记录",
    "title",
    "headline",
    "caption",
    "lyrics",
    "poem",
    "dialogue",
    "tweet",
    "comment",
    "patient",
    "the patient",
    "customer",
    "the customer",
    "标题",
    "歌词",
    "台词",
    "评论",
    "患者",
    "病人",
    "客户",
    "顾客",
];

/// Reads a line as a heading; with the offset behind it.
pub(super) fn heading(line: &str) -> Option<(Heading, usize)> {
    let trimmed = line.trim_start();
    let lead = line.len() - trimmed.len();
    let marked =
        trimmed.starts_with('#') || trimmed.starts_with("**") || trimmed.starts_with('[') || trimmed.starts_with('【');
    let (label, after) = match trimmed.char_indices().take(60).find(|(_, c)| matches!(c, ':' | '\u{ff1a}' | ']' | '】'))
    {
        Some((at, c)) => (&trimmed[..at], lead + at + c.len_utf8()),
        None if marked => (trimmed, line.len()),
        None => return None,
    };
    let label = label.trim_matches(|c: char| {
        c.is_whitespace() || matches!(c, '#' | '*' | '[' | ']' | '【' | '】' | '-' | '=' | '(' | ')' | '_')
    });
    if label.is_empty() || label.len() > 48 {
        return None;
    }
    let label = label.to_lowercase();
    if QUESTION_LABELS.contains(&label.as_str()) {
        return Some((Heading::Question, after));
    }
    let bare = label.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ' || c == '#' || c == '.');
    let foreign = FOREIGN_LABELS.contains(&bare) || FOREIGN_LABELS.contains(&label.as_str());
    // "[1] …" and "Doc 3: …" are retrieved passages.
    let numbered = marked && !label.is_empty() && label.chars().all(|c| c.is_ascii_digit());
    (foreign || numbered).then_some((Heading::Foreign, after))
}
