//! Groups of usage as JSON, CSV, and a table for people.

use serde_json::{Map, Value};

use crate::store::{UsageBy, UsageGroup, UsageSums};
use crate::tokens::Cost;

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What the groups are of.
    pub by: Vec<UsageBy>,
    /// The groups, in order.
    pub groups: Vec<UsageGroup>,
    /// What all of them add up to, those of later pieces included.
    pub totals: UsageSums,
    /// Where the next piece begins; `None` = there is none.
    pub next: Option<String>,
}

/// One figure of a group.
#[derive(Clone, Copy, Debug)]
enum Figure {
    Count(u64),
    /// `None` = of no exchange the price is known.
    Money(Option<Cost>),
    /// In microseconds, the mean; `None` = of no exchange.
    Time(Option<u64>),
}

/// The name of a figure, and where it is from.
type Column = (&'static str, fn(&UsageSums) -> Figure);

/// The columns behind those that the rows are grouped by.
const COLUMNS: [Column; 19] = [
    ("exchanges", |s| Figure::Count(s.exchanges)),
    ("incomplete", |s| Figure::Count(s.incomplete)),
    ("failed", |s| Figure::Count(s.failed)),
    ("estimated", |s| Figure::Count(s.estimated)),
    ("unpriced", |s| Figure::Count(s.unpriced)),
    ("attempts", |s| Figure::Count(s.attempts)),
    ("input_tokens", |s| Figure::Count(s.input)),
    ("cached_tokens", |s| Figure::Count(s.cached)),
    ("cache_write_tokens", |s| Figure::Count(s.cache_write)),
    ("output_tokens", |s| Figure::Count(s.output)),
    ("reasoning_tokens", |s| Figure::Count(s.reasoning)),
    ("memory_tokens", |s| Figure::Count(s.memory)),
    ("cut_tokens", |s| Figure::Count(s.cut)),
    ("cost", |s| priced(s, s.cost)),
    ("memory_cost", |s| priced(s, s.memory_cost)),
    ("saved", |s| priced(s, s.saved)),
    ("latency_ms", |s| Figure::Time(mean(s.total_us, s.exchanges))),
    ("first_byte_ms", |s| Figure::Time(mean(s.first_us, s.n_first))),
    ("overhead_ms", |s| Figure::Time(mean(s.overhead_us, s.exchanges))),
];

/// Those that a terminal has room for.
const SHOWN: [&str; 10] = [
    "exchanges",
    "incomplete",
    "failed",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "memory_tokens",
    "cost",
    "memory_cost",
    "saved",
];

fn priced(sums: &UsageSums, cost: Cost) -> Figure {
    Figure::Money((sums.exchanges == 0 || sums.unpriced < sums.exchanges).then_some(cost))
}

fn mean(sum: u64, n: u64) -> Option<u64> {
    sum.checked_div(n)
}

impl Figure {
    /// For a sheet: money in dollars, times in milliseconds, nothing where there is no figure.
    fn plain(self) -> String {
        match self {
            Self::Count(n) => n.to_string(),
            Self::Money(cost) => cost.map(|cost| cost.to_string()).unwrap_or_default(),
            Self::Time(us) => us.map(|us| format!("{}.{:03}", us / 1_000, us % 1_000)).unwrap_or_default(),
        }
    }
}

/// The answer as JSON: money in millionths of a US dollar, times in milliseconds.
#[must_use]
pub fn json(table: &Table) -> Value {
    let groups = table.groups.iter().map(|group| {
        let mut object = figures(&group.sums);
        for (by, value) in table.by.iter().zip(&group.of) {
            object.insert(by.name().to_owned(), value.clone().map_or(Value::Null, Value::from));
        }
        Value::Object(object)
    });
    serde_json::json!({
        "group_by": table.by.iter().map(|by| by.name()).collect::<Vec<_>>(),
        "data": groups.collect::<Vec<_>>(),
        "totals": figures(&table.totals),
        "next": table.next,
    })
}

/// Reads what [`json`] wrote, as far as [`text`] shows it.
#[must_use]
pub fn from_json(body: &str) -> Option<Table> {
    let body: Value = serde_json::from_str(body).ok()?;
    let by: Option<Vec<UsageBy>> =
        body["group_by"].as_array()?.iter().map(|name| UsageBy::named(name.as_str()?)).collect();
    let by = by?;
    let groups = body["data"].as_array()?.iter().map(|group| UsageGroup {
        of: by.iter().map(|by| group[by.name()].as_str().map(str::to_owned)).collect(),
        sums: shown_sums(group),
    });
    Some(Table {
        groups: groups.collect(),
        totals: shown_sums(&body["totals"]),
        next: body["next"].as_str().map(str::to_owned),
        by,
    })
}

fn shown_sums(figures: &Value) -> UsageSums {
    let figure = |name: &str| figures[name].as_u64().unwrap_or_default();
    UsageSums {
        exchanges: figure("exchanges"),
        incomplete: figure("incomplete"),
        failed: figure("failed"),
        unpriced: figure("unpriced"),
        input: figure("input_tokens"),
        cached: figure("cached_tokens"),
        output: figure("output_tokens"),
        memory: figure("memory_tokens"),
        cost: Cost::from_micros(figure("cost_micros")),
        memory_cost: Cost::from_micros(figure("memory_cost_micros")),
        saved: Cost::from_micros(figure("saved_micros")),
        ..UsageSums::default()
    }
}

fn figures(sums: &UsageSums) -> Map<String, Value> {
    let figure = |(name, of): &Column| match of(sums) {
        Figure::Count(n) => ((*name).to_owned(), Value::from(n)),
        Figure::Money(cost) => (format!("{name}_micros"), cost.map_or(Value::Null, |cost| Value::from(cost.micros()))),
        #[expect(clippy::cast_precision_loss, reason = "a mean of times; no sum is made of it")]
        Figure::Time(us) => ((*name).to_owned(), us.map_or(Value::Null, |us| Value::from(us as f64 / 1e3))),
    };
    COLUMNS.iter().map(figure).collect()
}

/// The answer as CSV (RFC 4180), without totals: a sheet that adds up would count all twice.
#[must_use]
pub fn csv(table: &Table) -> String {
    let mut out = String::new();
    let names = COLUMNS.iter().map(|(name, of)| match of(&UsageSums::default()) {
        Figure::Money(_) => format!("{name}_usd"),
        Figure::Count(_) | Figure::Time(_) => (*name).to_owned(),
    });
    line(&mut out, table.by.iter().map(|by| by.name().to_owned()).chain(names));
    for group in &table.groups {
        let of = group.of.iter().map(|value| cell(value.as_deref().unwrap_or_default()));
        line(&mut out, of.chain(COLUMNS.iter().map(|(_, figure)| figure(&group.sums).plain())));
    }
    out
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push_str(&cells.collect::<Vec<_>>().join(","));
    out.push_str("\r\n");
}

/// A text as a cell. Texts are what clients sent: a sheet must not run one as a formula (OWASP, CSV injection), so those that could be one
/// get an apostrophe in front.
fn cell(text: &str) -> String {
    let formula = text.trim_start().starts_with(['=', '+', '-', '@']) || text.starts_with(['\t', '\r', '\n']);
    let safe = if formula { format!("'{text}") } else { text.to_owned() };
    if safe.contains([',', '"', '\r', '\n']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

/// The answer as a table for people, with a line of totals.
#[must_use]
pub fn text(table: &Table) -> String {
    let shown: Vec<_> = COLUMNS.iter().filter(|(name, _)| SHOWN.contains(name)).collect();
    let n_by = table.by.len();
    let head = |name: &str| name.trim_end_matches("_tokens").replace('_', " ").to_uppercase();
    let mut rows = vec![
        table.by.iter().map(|by| head(by.name())).chain(shown.iter().map(|(name, _)| head(name))).collect::<Vec<_>>(),
    ];
    let figures = |sums: &UsageSums| shown.iter().map(|(_, of)| for_people(of(sums))).collect::<Vec<_>>();
    for group in &table.groups {
        let of = group.of.iter().map(|value| one_line(value.as_deref().unwrap_or("-")));
        rows.push(of.chain(figures(&group.sums)).collect());
    }
    if n_by > 0 {
        let name = |at: usize| if at == 0 { "total".to_owned() } else { String::new() };
        rows.push((0..n_by).map(name).chain(figures(&table.totals)).collect());
    }
    let widths: Vec<usize> = (0..n_by + shown.len())
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default())
        .collect();
    let mut lines: Vec<String> = rows.iter().map(|row| aligned(row, &widths, n_by)).collect();
    if table.totals.unpriced > 0 {
        lines.push(format!(
            "{} of {} exchanges are in no amount of money: the price of their model is not known",
            table.totals.unpriced, table.totals.exchanges
        ));
    }
    if table.next.is_some() {
        lines.push(format!("the first {} groups; the total is of all", table.groups.len()));
    }
    lines.join("\n")
}

/// Names to the left, figures to the right.
fn aligned(row: &[String], widths: &[usize], n_by: usize) -> String {
    let cells = row
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(at, (cell, &width))| if at < n_by { format!("{cell:<width$}") } else { format!("{cell:>width$}") });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn for_people(figure: Figure) -> String {
    match figure {
        Figure::Money(Some(cost)) => format!("${cost}"),
        Figure::Money(None) | Figure::Time(None) => "-".to_owned(),
        figure => figure.plain(),
    }
}

/// What clients sent must not move the cursor of a terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let sums = UsageSums {
            exchanges: 3,
            incomplete: 1,
            input: 1_200,
            output: 34,
            memory: 100,
            cost: Cost::from_micros(1_500),
            memory_cost: Cost::from_micros(20),
            total_us: 4_500,
            first_us: 1_000,
            n_first: 2,
            ..UsageSums::default()
        };
        let unpriced = UsageSums { exchanges: 1, unpriced: 1, ..UsageSums::default() };
        let totals = UsageSums { exchanges: 4, unpriced: 1, ..sums.clone() };
        let group = |of: &[Option<&str>], sums: UsageSums| UsageGroup {
            of: of.iter().map(|v| v.map(str::to_owned)).collect(),
            sums,
        };
        Table {
            by: vec![UsageBy::Key, UsageBy::Subject],
            groups: vec![group(&[Some("team-a"), None], sums), group(&[Some("b"), Some("=2+5,\"x\"")], unpriced)],
            totals,
            next: None,
        }
    }

    #[test]
    fn json_says_null_where_nothing_is_known() {
        let json = json(&table());
        let [a, b] = [&json["data"][0], &json["data"][1]];
        assert_eq!((&a["key"], &a["subject"]), (&Value::from("team-a"), &Value::Null));
        assert_eq!((a["cost_micros"].as_u64(), a["latency_ms"].as_f64()), (Some(1_500), Some(1.5)));
        assert_eq!(a["first_byte_ms"].as_f64(), Some(0.5));
        assert!(b["cost_micros"].is_null() && b["first_byte_ms"].is_null());
        assert_eq!((b["unpriced"].as_u64(), json["totals"]["cost_micros"].as_u64()), (Some(1), Some(1_500)));
        assert!(json["next"].is_null());
    }

    #[test]
    fn csv_is_quoted_and_no_cell_is_a_formula() {
        let csv = csv(&table());
        let lines: Vec<&str> = csv.split("\r\n").collect();
        assert!(lines[0].starts_with("key,subject,exchanges,"), "{csv}");
        assert!(lines[0].contains(",cost_usd,memory_cost_usd,saved_usd,latency_ms,"), "{csv}");
        assert!(lines[1].starts_with("team-a,,3,1,0,0,0,0,1200,"), "{csv}");
        assert!(lines[1].contains(",0.001500,0.000020,0.000000,1.500,0.500,"), "{csv}");
        assert!(lines[2].starts_with("b,\"'=2+5,\"\"x\"\"\",1,"), "{csv}");
        assert_eq!((lines.len(), lines[3]), (4, ""));
        for bad in ["=1", "+1", "-1", "@a", " =1", "\t=1", "\r=1", "\n"] {
            assert!(cell(bad).trim_start_matches('"').starts_with('\''), "{bad:?}: {}", cell(bad));
        }
        assert_eq!(cell("plain-text+1"), "plain-text+1");
    }

    #[test]
    fn a_table_looks_alike_whether_it_came_as_json_or_not() {
        assert_eq!(text(&from_json(&json(&table()).to_string()).unwrap()), text(&table()));
        assert!(from_json("[]").is_none() && from_json("<html>").is_none());
    }

    #[test]
    fn the_table_is_aligned_and_ends_with_the_total() {
        let text = text(&table());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("KEY     SUBJECT"), "{text}");
        assert!(lines[1].starts_with("team-a  -"), "{text}");
        assert!(lines[1].contains("$0.001500"), "{text}");
        assert!(lines[3].starts_with("total"), "{text}");
        assert!(lines[4].starts_with("1 of 4 exchanges"), "{text}");
        let end = |line: &str| line.chars().count();
        assert_eq!(end(lines[0]), end(lines[1]), "{text}");
        assert_eq!(one_line("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
    }
}
