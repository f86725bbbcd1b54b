use super::*;

/// Our own cases, in the order in which they were written; each later file was written before the rules were looked at again.
const FILES: [(&str, &str); 7] = [
    ("english", include_str!("../../../tests/data/extraction/english.jsonl")),
    ("chinese", include_str!("../../../tests/data/extraction/chinese.jsonl")),
    ("held_out", include_str!("../../../tests/data/extraction/held_out.jsonl")),
    ("second", include_str!("../../../tests/data/extraction/second.jsonl")),
    ("third", include_str!("../../../tests/data/extraction/third.jsonl")),
    ("fourth", include_str!("../../../tests/data/extraction/fourth.jsonl")),
    ("fifth", include_str!("../../../tests/data/extraction/fifth.jsonl")),
];
const REPLIES: [(&str, &str); 2] = [
    ("fourth", include_str!("../../../tests/data/extraction/fourth.replies.jsonl")),
    ("fifth", include_str!("../../../tests/data/extraction/fifth.replies.jsonl")),
];

fn cases(name: &str) -> Vec<case::Case> {
    let files = FILES.iter().filter(|(file, _)| name.is_empty() || *file == name);
    files.flat_map(|(file, content)| case::read(file, content).expect("our own cases can be read")).collect()
}

fn measured(name: &str, replies: &replies::Replies) -> Report {
    let report = measure(&cases(name), replies);
    println!("{}", report.table(true));
    report
}

/// Guards against the kinds of faults under "Write path" in public reports, each case naming its own: mem0ai/mem0#4573, #2736,
/// #4536, #5576, #3707; plastic-labs/honcho#953; NousResearch/hermes-agent#59823; letta-ai/letta-code#4097.
#[test]
fn the_rules_are_right_when_they_speak_and_speak_when_they_can() {
    let report = measured("", &replies::Replies::new());
    let all = report.overall;
    assert!(all.cases >= 150, "{} cases", all.cases);
    assert!(all.precision() >= 0.97 && all.recall() >= 0.9, "{:.3} {:.3}", all.precision(), all.recall());
    assert_eq!((all.stale, all.wrong_subject, all.loops, all.secrets), (0, 0, 0, 0));
}

#[test]
fn with_a_model_more_is_found_and_what_it_makes_up_stays_out() {
    for (file, content) in REPLIES {
        let replies = replies::read(file, content).expect("our own replies can be read");
        let all = measured(file, &replies).overall;
        assert!(all.precision() >= 0.98 && all.recall() >= 0.9, "{file}: {:.3} {:.3}", all.precision(), all.recall());
        assert_eq!((all.stale, all.wrong_subject, all.loops, all.secrets), (0, 0, 0, 0));
    }
}
