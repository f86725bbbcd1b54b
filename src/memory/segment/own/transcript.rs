//! Few-shot pairs and transcripts: lines that each begin with a label.

const SPEAKERS: [&str; 30] = [
    "q",
    "a",
    "user",
    "assistant",
    "human",
    "ai",
    "bot",
    "system",
    "customer",
    "agent",
    "input",
    "output",
    "speaker 1",
    "speaker 2",
    "interviewer",
    "interviewee",
    "client",
    "support",
    "question",
    "answer",
    "问",
    "答",
    "用户",
    "助手",
    "客服",
    "顾客",
    "客户",
    "甲",
    "乙",
    "me",
];

/// The line at which few-shot pairs or a transcript begin, when there are some: two labelled lines.
pub(super) fn transcript_start(lines: &[(usize, &str)]) -> Option<usize> {
    let mut first = None;
    let mut count = 0;
    for (index, (_, line)) in lines.iter().enumerate() {
        let line = line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '[' | '-' | '<'));
        let Some((at, colon)) = line.char_indices().take(32).find(|(_, c)| matches!(c, ':' | '\u{ff1a}')) else {
            continue;
        };
        let label = line[..at].trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | ']' | '>' | '_'));
        let follows = line[at + colon.len_utf8()..].trim();
        let known = SPEAKERS
            .contains(&label.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ').to_lowercase().as_str())
            || SPEAKERS.contains(&label.to_lowercase().as_str());
        let named = is_name(label) && !follows.is_empty();
        if known || named {
            first.get_or_insert(index);
            count += 1;
        }
    }
    // "Question: …" alone is how an app wraps what a user typed; two and more labels are a dialogue or a form.
    (count >= 2).then_some(first).flatten()
}

/// "Tom" or "Mary Ann": a label that may be a speaker's name.
pub(super) fn is_name(label: &str) -> bool {
    const REMARKS: [&str; 19] = [
        "Question",
        "Background",
        "Me",
        "Hi",
        "Hello",
        "Info",
        "Today",
        "Note",
        "Notes",
        "Also",
        "Update",
        "Edit",
        "Remember",
        "Please",
        "Important",
        "Reminder",
        "Ps",
        "Fyi",
        "Correction",
    ];
    let mut words = label.split(' ');
    if REMARKS.contains(&label) {
        return false;
    }
    label.len() <= 24
        && words.clone().count() <= 2
        && words.all(|w| w.chars().next().is_some_and(char::is_uppercase) && w.chars().skip(1).all(char::is_lowercase))
}
