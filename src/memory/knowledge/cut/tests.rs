use proptest::prelude::*;

use super::*;

fn texts(text: &str) -> Vec<String> {
    cut(text, Format::Markdown).into_iter().map(|passage| passage.text).collect()
}

fn numbered(n: usize) -> String {
    (0..n).map(|n| format!("Sentence number {n} says what the rule of case {n} is and when it holds. ")).collect()
}

#[test]
fn a_passage_never_reaches_over_a_heading() {
    let text = "Welcome.\n\n# Returns\nWithin 30 days.\n\n## Exceptions\nNot on sale items.\n\n# Shipping\nTwo days.\n";
    let passages = cut(text, Format::Markdown);
    let shown: Vec<_> = passages.iter().map(|p| (p.number, p.headings.join(" > "), p.text.as_str())).collect();
    let expected = [
        (0, "", "Welcome."),
        (1, "Returns", "Within 30 days."),
        (2, "Returns > Exceptions", "Not on sale items."),
        (3, "Shipping", "Two days."),
    ];
    assert_eq!(shown, expected.map(|(n, path, text)| (n, path.to_owned(), text)));
}

#[test]
fn a_heading_over_nothing_is_told_and_one_over_others_stands_in_their_path() {
    let passages = cut("# Guide\n## Call 555-0100\n## Open\nAlways.\n# Closed on Mondays", Format::Markdown);
    let shown: Vec<_> = passages.iter().map(|p| format!("{}|{}", p.headings.join(">"), p.text)).collect();
    assert_eq!(shown, ["Guide|Call 555-0100", "Guide>Open|Always.", "|Closed on Mondays"]);
}

#[test]
fn long_sections_are_cut_between_sentences_with_an_overlap() {
    let passages = texts(&numbered(40));
    assert!(passages.len() > 3, "{passages:?}");
    for pair in passages.windows(2) {
        let first = pair[1].split_inclusive(". ").next().unwrap().trim_end();
        assert!(pair[0].ends_with(first), "{first:?} ends {:?}", pair[0]);
        assert!(size(first) >= TARGET / 10 && size(first) <= OVERLAP, "{}", size(first));
    }
}

#[test]
fn of_a_long_sentence_the_end_is_repeated() {
    let sentence =
        |n: usize| format!("In case {n} {}nothing else holds.", "the keeper of the lighthouse is told and ".repeat(5));
    let passages = texts(&(0..6).map(sentence).collect::<Vec<_>>().join(" "));
    assert!(passages[1].starts_with('…'), "{passages:?}");
    let lead = passages[1].split_once(". ").unwrap().0.trim_start_matches('…');
    assert!(passages[0].contains(lead) && size(lead) >= TARGET / 10, "{lead}");
}

#[test]
fn lists_tables_and_code_are_kept_whole_where_they_fit() {
    let list: String = (0..20).map(|n| format!("- step {n}: turn the valve\n")).collect();
    let code = "```sh\nmake one\n\nmake two\n```";
    let table = "| plan | price |\n|---|---|\n| basic | 5 |\n| full | 9 |";
    let text = format!("{}\n\n{list}\n{code}\n\nPrices:\n\n{table}\n", numbered(3));
    let passages = texts(&text);
    for whole in [list.trim_end(), code, table] {
        assert!(passages.iter().any(|text| text.contains(whole)), "{whole} in {passages:#?}");
    }
    assert!(passages.iter().any(|text| text.contains("Prices:\n| plan")), "{passages:#?}");
}

#[test]
fn a_table_that_does_not_fit_has_its_head_over_each_part() {
    let rows: String = (0..120).map(|n| format!("| article {n} | {n} pieces in the store |\n")).collect();
    let passages = texts(&format!("| name | stock |\n|---|---|\n{rows}"));
    assert!(passages.len() > 3);
    assert!(passages.iter().all(|text| text.starts_with("| name | stock |\n|---|---|\n")), "{passages:#?}");
}

#[test]
fn chinese_is_cut_at_its_own_marks_and_joined_without_spaces() {
    let text = "退货须在三十天内办理。促销商品不能退货！请保留发票；否则无法受理。".repeat(12);
    let passages = texts(&text);
    assert!(passages.len() > 2);
    assert!(
        passages.iter().all(|text| !text.contains(' ') && text.ends_with(['。', '\u{ff01}', '\u{ff1b}'])),
        "{passages:?}"
    );
}

#[test]
fn abbreviations_decimals_and_quotes_end_no_sentence() {
    let cut: Vec<_> = sentences("Dr. Wu pays 5.999 EUR, e.g. by card. \"Really?\" he asked! Yes…  No").collect();
    assert_eq!(cut, ["Dr. Wu pays 5.999 EUR, e.g. by card.", "\"Really?\"", "he asked!", "Yes…", "No"]);
}

#[test]
fn a_long_line_stands_where_it_stood() {
    let long = numbered(12);
    let passages = texts(&format!("- first\n- second\n- third {long}\n- fourth\n")).join("\n");
    let places = ["- first", "- second", "- third", "Sentence number 11", "- fourth"].map(|text| passages.find(text));
    assert!(places.is_sorted() && places[0].is_some(), "{places:?} in {passages}");
}

// Each was quadratic.
#[test]
fn what_repeats_one_character_very_often_is_cut_in_linear_time() {
    const N: usize = 300_000;
    let begun = std::time::Instant::now();
    for text in [
        format!("- item\n{}  more\n", "\n".repeat(N)),
        format!("{}x", ".".repeat(N)),
        "x".repeat(N),
        format!("- {}", "x".repeat(N)),
        "- item\n\n".repeat(N / 8),
    ] {
        for format in [Format::Markdown, Format::Text] {
            assert!(!cut(&text, format).is_empty());
        }
    }
    assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
}

#[test]
fn an_empty_document_has_no_passages() {
    for text in ["", " \n\t\n", "---\n***\n"] {
        assert_eq!(texts(text), Vec::<String>::new());
    }
}

/// Documents of headings, paragraphs, lists, tables and code, in two languages.
fn document() -> impl Strategy<Value = String> {
    let sentence = prop_oneof![
        "[A-Za-z]{1,9}( [a-z0-9,-]{1,9}){0,30}[.!?]",
        "[\u{4e00}-\u{4e40}]{1,60}[。\u{ff01}\u{ff1f}]",
        "[a-z]{200,900}",
        "[\u{4e00}-\u{4e10}]{150,400}",
    ];
    let paragraph = prop::collection::vec(sentence, 1..12).prop_map(|all| all.join(" ") + "\n\n");
    let block = prop_oneof![
        6 => paragraph,
        2 => "#{1,3} [a-zA-Z]{1,20}( [a-z]{1,8}){0,4}\n",
        1 => "(- [a-z]{1,30}( [a-z]{1,20}){0,20}\n){1,40}\n",
        1 => "(- [a-z]{1,30}( [a-z]{1,20}){0,90}\n){1,9}\n",
        1 => "\\| a \\| b \\|\n\\|---\\|---\\|\n(\\| [a-z]{1,40} \\| [a-z0-9]{1,40} \\|\n){0,60}\n",
        1 => "```\n([a-z ]{0,60}\n){0,60}```\n",
    ];
    prop::collection::vec(block, 0..14).prop_map(|blocks| blocks.concat())
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_passage_is_empty_or_too_large(text in document()) {
        for passage in cut(&text, Format::Markdown).iter().chain(&cut(&text, Format::Text)) {
            prop_assert!(!passage.text.trim().is_empty());
            prop_assert!(size(&passage.text) <= MAX_PASSAGE, "{} in {}", size(&passage.text), passage.text);
        }
    }

    #[test]
    fn every_sentence_that_fits_is_in_some_passage(text in document()) {
        let passages = cut(&text, Format::Markdown);
        for block in blocks::of_markdown(&text) {
            let Block::Prose(text) = block else { continue };
            for sentence in sentences(text).map(one_line).filter(|sentence| size(sentence) <= TARGET) {
                prop_assert!(passages.iter().any(|passage| passage.text.contains(&sentence)), "{sentence}");
            }
        }
    }

    #[test]
    fn nothing_is_lost(text in document()) {
        for format in [Format::Text, Format::Markdown] {
            let told = |passage: &Passage| letters(&passage.headings.concat()) + &letters(&passage.text);
            let whole: String = cut(&text, format).iter().map(told).collect();
            let mut rest = whole.chars();
            // All letters are there, in their order; passages only repeat some.
            prop_assert!(letters(&text).chars().all(|c| rest.any(|other| other == c)), "{format:?}");
        }
    }

    #[test]
    fn a_passage_repeats_no_more_than_a_fifth(text in document()) {
        for block in blocks::of_text(&text) {
            let Block::Prose(text) = block else { continue };
            let units = prose(text);
            for draft in pack(&units) {
                prop_assert!(size(&draft.lead) <= OVERLAP, "{}", draft.lead);
            }
        }
    }

    #[test]
    fn any_text_is_cut(text in "\\PC{0,400}|[-#|`~\n .a你]{0,200}") {
        for format in [Format::Text, Format::Markdown] {
            for passage in cut(&text, format) {
                prop_assert!(size(&passage.text) <= MAX_PASSAGE);
            }
        }
    }
}
