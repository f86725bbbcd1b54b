//! From the text of `/metrics` to OTLP: what is counted once is told twice, not counted twice.
//!
//! It reads the OpenMetrics text that `prometheus-client` writes of our registry, not any text: a line that it does not understand is
//! passed over.

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue as Attribute};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::Attributes;

use super::names;
use super::traces::SCOPE;

/// When counting began, and now; nanoseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) now: u64,
}

/// The request that exports all metrics of a text.
pub(super) fn message(text: &str, resource: Resource, span: Span) -> ExportMetricsServiceRequest {
    let scope = InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_metrics =
        vec![ScopeMetrics { scope: Some(scope), metrics: metrics(text, span), schema_url: String::new() }];
    let resource_metrics = vec![ResourceMetrics { resource: Some(resource), scope_metrics, schema_url: String::new() }];
    ExportMetricsServiceRequest { resource_metrics }
}

fn metrics(text: &str, span: Span) -> Vec<Metric> {
    let mut out: Vec<Metric> = Vec::new();
    let mut help = "";
    let mut family: Option<Family<'_>> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            out.extend(family.take().and_then(|family| family.finish()));
            family = rest.split_once(' ').and_then(|(name, kind)| Family::new(name, kind, help));
        } else if let Some((family, sample)) = family.as_mut().zip(Sample::read(line)) {
            family.add(&sample, span);
        }
    }
    out.extend(family.and_then(Family::finish));
    out
}

/// One line of numbers.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<(&'t str, String)>,
    value: &'t str,
}

impl<'t> Sample<'t> {
    fn read(line: &'t str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), rest),
        };
        // Behind the value an exemplar or a time may stand.
        Some(Self { name, labels, value: rest.split_ascii_whitespace().next()? })
    }

    fn float(&self) -> Option<f64> {
        self.value.parse().ok()
    }

    fn attributes(&self) -> Vec<Attribute> {
        let labels = self.labels.iter().filter(|(name, _)| *name != "le");
        Attributes::from(labels.map(|(name, value)| KeyValue::new(names::attribute(name).to_owned(), value.clone()))).0
    }
}

/// Reads `a="b",c="d"}` and returns what stands behind it.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut out = Vec::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((out, behind));
        }
        let (name, behind) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = behind.char_indices();
        rest = loop {
            match chars.next()? {
                (at, '"') => break &behind[at + 1..],
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        out.push((name, value));
    }
}

/// A metric that is being read.
struct Family<'t> {
    name: &'t str,
    help: &'t str,
    points: Points,
}

enum Points {
    Counter(Vec<NumberDataPoint>),
    Gauge(Vec<NumberDataPoint>),
    Histogram(Vec<HistogramDataPoint>),
}

impl<'t> Family<'t> {
    fn new(name: &'t str, kind: &str, help: &'t str) -> Option<Self> {
        let points = match kind {
            "counter" => Points::Counter(Vec::new()),
            "gauge" => Points::Gauge(Vec::new()),
            "histogram" => Points::Histogram(Vec::new()),
            _ => return None,
        };
        Some(Self { name, help, points })
    }

    fn add(&mut self, sample: &Sample<'_>, span: Span) {
        let Some(part) = sample.name.strip_prefix(self.name) else { return };
        match &mut self.points {
            Points::Counter(points) if part == "_total" => points.extend(number(sample, span)),
            Points::Gauge(points) if part.is_empty() => points.extend(number(sample, span)),
            Points::Histogram(points) => {
                if let Some(value) = sample.float() {
                    bucket(points, sample, part, value, span);
                }
            }
            _ => {}
        }
    }

    /// `None` where there is no series yet.
    fn finish(self) -> Option<Metric> {
        let cumulative = AggregationTemporality::Cumulative as i32;
        let (is_empty, data) = match self.points {
            Points::Counter(data_points) => (
                data_points.is_empty(),
                metric::Data::Sum(Sum { data_points, aggregation_temporality: cumulative, is_monotonic: true }),
            ),
            Points::Gauge(data_points) => (data_points.is_empty(), metric::Data::Gauge(Gauge { data_points })),
            Points::Histogram(mut data_points) => {
                data_points.iter_mut().for_each(apart);
                let empty = data_points.is_empty();
                (empty, metric::Data::Histogram(Histogram { data_points, aggregation_temporality: cumulative }))
            }
        };
        (!is_empty).then(|| Metric {
            name: names::metric(self.name).to_owned(),
            description: self.help.to_owned(),
            unit: names::unit(self.name).to_owned(),
            data: Some(data),
            ..Metric::default()
        })
    }
}

fn number(sample: &Sample<'_>, span: Span) -> Option<NumberDataPoint> {
    let value = match sample.value.parse::<i64>() {
        Ok(whole) => number_data_point::Value::AsInt(whole),
        Err(_) => number_data_point::Value::AsDouble(sample.float()?),
    };
    Some(NumberDataPoint {
        attributes: sample.attributes(),
        start_time_unix_nano: span.start,
        time_unix_nano: span.now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

/// Takes one line of a histogram in. Lines of one series stand together.
fn bucket(points: &mut Vec<HistogramDataPoint>, sample: &Sample<'_>, part: &str, value: f64, span: Span) {
    let attributes = sample.attributes();
    if points.last().is_none_or(|point| point.attributes != attributes) {
        points.push(HistogramDataPoint {
            attributes,
            start_time_unix_nano: span.start,
            time_unix_nano: span.now,
            ..HistogramDataPoint::default()
        });
    }
    let Some(point) = points.last_mut() else { return };
    match part {
        "_sum" => point.sum = Some(value),
        "_count" => point.count = whole(value),
        "_bucket" => {
            let bound = sample.labels.iter().find(|(name, _)| *name == "le").and_then(|(_, le)| le.parse::<f64>().ok());
            point.bucket_counts.push(whole(value));
            // The last one has no bound; it is not written.
            point.explicit_bounds.extend(bound.filter(|bound| bound.is_finite()));
        }
        _ => {}
    }
}

/// Prometheus counts all up to a bound; OTLP what is between two.
fn apart(point: &mut HistogramDataPoint) {
    for at in (1..point.bucket_counts.len()).rev() {
        point.bucket_counts[at] = point.bucket_counts[at].saturating_sub(point.bucket_counts[at - 1]);
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, which is whole and not negative")]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Direction, Metrics, Outcome, RecallOutcome, Route};

    const SPAN: Span = Span { start: 1, now: 2 };

    fn found<'m>(metrics: &'m [Metric], name: &str) -> &'m Metric {
        metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    fn text_of(attribute: &Attribute) -> (&str, String) {
        use opentelemetry_proto::tonic::common::v1::any_value::Value;
        let value = attribute.value.as_ref().and_then(|value| value.value.clone());
        (attribute.key.as_str(), if let Some(Value::StringValue(text)) = value { text } else { String::new() })
    }

    #[test]
    fn counters_gauges_and_histograms_say_what_the_registry_says() {
        let registry = Metrics::new();
        registry.requests.add(Route::Chat, Outcome::Ok, 3);
        registry.tokens.add(Direction::Input, 7);
        registry.recalls.inc(RecallOutcome::Hit);
        registry.set_limit_accounts(5);
        for value in [0.000_2, 0.000_2, 0.3, 7.0] {
            registry.recall_seconds.observe(value);
        }
        let metrics = metrics(&registry.render(), SPAN);

        let Some(metric::Data::Sum(sum)) = &found(&metrics, "backstory_requests").data else { panic!("no sum") };
        assert!(sum.is_monotonic);
        let chat =
            sum.data_points.iter().find(|point| point.value == Some(number_data_point::Value::AsInt(3))).unwrap();
        let labels: Vec<_> = chat.attributes.iter().map(text_of).collect();
        assert_eq!(labels, [("route", "chat".to_owned()), ("outcome", "2xx".to_owned())]);
        assert_eq!((chat.start_time_unix_nano, chat.time_unix_nano), (1, 2));

        let accounts = found(&metrics, "backstory_limit_accounts");
        let Some(metric::Data::Gauge(gauge)) = &accounts.data else { panic!("no gauge") };
        assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsInt(5)));

        let recall = found(&metrics, "backstory_recall_seconds");
        assert_eq!(recall.unit, "s");
        let Some(metric::Data::Histogram(histogram)) = &recall.data else { panic!("no histogram") };
        let point = &histogram.data_points[0];
        assert_eq!(point.count, 4);
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), 4);
        assert_eq!(point.bucket_counts.last(), Some(&1), "7 s is beyond the last bound");
        assert!(point.sum.is_some_and(|sum| (sum - 7.300_4).abs() < 1e-9));
    }

    #[test]
    fn every_family_of_the_registry_is_read() {
        let text = Metrics::new().render();
        let metrics = metrics(&text, SPAN);
        // Families of targets have no series before targets are declared.
        let with_series = |name: &str| text.lines().any(|line| !line.starts_with('#') && line.starts_with(name));
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next())
                && with_series(name)
            {
                found(&metrics, names::metric(name));
            }
        }
        assert!(metrics.len() > 40, "{}", metrics.len());
    }

    #[test]
    fn labels_are_read_as_they_were_meant() {
        let (labels, rest) = labels(r#"a="b\"c\\d\ne",f="g,h}"} 12"#).unwrap();
        assert_eq!(labels, [("a", "b\"c\\d\ne".to_owned()), ("f", "g,h}".to_owned())]);
        assert_eq!(rest, " 12");
    }

    #[test]
    fn what_is_broken_is_passed_over() {
        for text in
            ["# TYPE a counter\na_total{b=\"c 1\n", "# TYPE a counter\na_total x\n", "nonsense", "# TYPE a counter"]
        {
            assert!(metrics(text, SPAN).is_empty(), "{text}");
        }
    }
}
