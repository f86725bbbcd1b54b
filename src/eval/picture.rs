//! A picture of recall over tokens: how much of what was asked for lies within the first so many tokens of the ranking.

use std::fmt::Write as _;

use super::retrieval::Outcome;

/// The axis of tokens ends here.
const MAX_TOKENS: usize = 4_000;
/// A point of a curve every so many tokens.
const STEP: usize = 50;
/// The size of the picture, and the margins around the plot, in pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 176.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 48.0;
/// Of the curves, in turn; the first is the one over all questions. Told apart by people who do not see all colours
/// (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// A curve: its name, and the share of expected memories within 0, 50, 100, … tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) shares: Vec<f64>,
}

impl Curve {
    /// The curve over the questions that expect anything; `None` when none does.
    pub(super) fn of<'a>(name: &str, outcomes: impl Iterator<Item = &'a Outcome>) -> Option<Self> {
        let mut sums = vec![0.0; MAX_TOKENS / STEP + 1];
        let mut n = 0_u32;
        for outcome in outcomes.filter(|outcome| outcome.expected > 0) {
            n += 1;
            for (place, sum) in sums.iter_mut().enumerate() {
                let within = outcome.found.iter().filter(|(_, tokens)| *tokens <= place * STEP).count();
                *sum += within as f64 / outcome.expected as f64;
            }
        }
        (n > 0).then(|| Self {
            name: format!("{name} (n = {n})"),
            shares: sums.into_iter().map(|sum| sum / f64::from(n)).collect(),
        })
    }
}

/// Draws curves as an SVG document that needs nothing beside itself.
pub(super) fn svg(title: &str, curves: &[Curve]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    // Writing to a string does not fail, here and below.
    for fifth in 0..=5_u32 {
        let share = f64::from(fifth) / 5.0;
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(share) + 4.0,
            share * 100.0,
            y = y(share),
        );
    }
    for tokens in (0..=MAX_TOKENS).step_by(1_000) {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tokens}</text>",
            x(tokens),
            HEIGHT - BOTTOM + 18.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">tokens of the ranking, from the best down</text>",
        (x(0) + x(MAX_TOKENS)) / 2.0,
        HEIGHT - 10.0
    );
    for ((place, curve), colour) in curves.iter().enumerate().zip(COLOURS.iter().cycle()) {
        let points: Vec<String> = curve
            .shares
            .iter()
            .enumerate()
            .map(|(at, share)| format!("{:.1},{:.1}", x(at * STEP), y(*share)))
            .collect();
        let width = if place == 0 { 2.5 } else { 1.5 };
        let legend = TOP + 12.0 + 18.0 * place as f64;
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" points=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{legend:.1}\" fill=\"{colour}\">{}</text>",
            points.join(" "),
            WIDTH - RIGHT + 12.0,
            escaped(&curve.name)
        );
    }
    out.push_str("</svg>\n");
    out
}

fn x(tokens: usize) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * tokens as f64 / MAX_TOKENS as f64
}

fn y(share: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
}

/// A category comes from a file: it may hold anything.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(expected: usize, found: &[(usize, usize)]) -> Outcome {
        Outcome {
            category: "single".to_owned(),
            answerable: expected > 0,
            expected,
            found: found.to_vec(),
            shown: 0,
            shown_right: 0,
            recall_seconds: 0.0,
            search_seconds: 0.0,
        }
    }

    #[test]
    fn a_curve_rises_where_the_memories_lie() {
        let outcomes = [outcome(2, &[(0, 40), (3, 300)]), outcome(1, &[]), outcome(0, &[])];
        let curve = Curve::of("overall", outcomes.iter()).unwrap();
        assert_eq!(curve.name, "overall (n = 2)");
        assert_eq!((curve.shares[0], curve.shares[1], curve.shares[5], curve.shares[6]), (0.0, 0.25, 0.25, 0.5));
        assert_eq!(Curve::of("none", [outcome(0, &[])].iter()), None);
    }

    #[test]
    fn a_picture_holds_every_curve_and_escapes_names() {
        let curve = Curve { name: "a<b & c".to_owned(), shares: vec![0.0, 1.0] };
        let drawn = svg("recall", &[curve.clone(), curve]);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert!(drawn.contains("a&lt;b &amp; c") && !drawn.contains("a<b"));
        assert!(drawn.contains("points=\"56.0,392.0"), "{drawn}");
    }
}
