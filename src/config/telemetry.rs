//! `[telemetry]`: the log, and what goes to an OpenTelemetry collector.

use std::time::Duration;

use super::env::Env;
use super::provider::{header_problem, http_url, parse_http_url};
use super::reader::Section;
use crate::base::Secret;
use crate::telemetry::LogFormat;
use crate::upstream::OtlpProtocol;

/// The port that collectors take OTLP over HTTP at.
const HTTP_PORT: u16 = 4318;

/// `[telemetry]`: logs, traces and metrics.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// `log`: the form of the log on standard error.
    pub log: LogFormat,
    /// `level`: a filter, as in `info` or `backstory=debug,warn`; `BACKSTORY_LOG` wins over it.
    pub level: String,
    /// What is exported, and where to; `None` = nothing.
    pub otlp: Option<Otlp>,
    /// What was written of it; the environment says the rest.
    written: Written,
}

/// Where traces and metrics go.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// `otlp_endpoint`: a collector, without `/v1/traces`.
    pub endpoint: String,
    /// `otlp_protocol`; left out: `http` for port 4318, else `grpc`.
    pub protocol: OtlpProtocol,
    /// `otlp_headers`: sent with each message, as for authentication.
    pub headers: Vec<(String, Secret)>,
    /// `otlp_ca_file`: PEM text of certificates that are trusted beside those of the system.
    pub ca: Option<String>,
    /// `otlp_timeout_ms`: how long one message may take.
    pub timeout: Duration,
    /// `otlp_metrics_seconds`: how often metrics are sent; none = never, as for a collector that takes traces alone.
    pub metrics_every: Option<Duration>,
    /// `sample`: of traces that begin here, the share that is kept. Of those that a client began it decides.
    pub sample: f64,
    /// `service_name`.
    pub service_name: String,
    /// `resource`: what else is said of this process, attribute and value.
    pub resource: Vec<(String, String)>,
}

/// The keys as they stand in the file.
#[derive(Clone, Debug, Default)]
struct Written {
    endpoint: Option<String>,
    protocol: Option<OtlpProtocol>,
    headers: Vec<(String, Secret)>,
    ca: Option<String>,
    timeout: Option<Duration>,
    metrics_every: Option<Duration>,
    sample: Option<f64>,
    service_name: Option<String>,
    resource: Vec<(String, String)>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { log: LogFormat::Text, level: "info".to_owned(), otlp: None, written: Written::default() }
    }
}

impl Telemetry {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        let levels = "error, warn, info, debug, trace, off, or a filter, as in \"backstory=debug,warn\"";
        let level = s.parsed("level", levels, |text| is_filter(text).then(|| text.to_owned()));
        Self {
            log: s.choice("log", default.log, &[("text", LogFormat::Text), ("json", LogFormat::Json)]),
            level: level.unwrap_or(default.level),
            otlp: None,
            written: Written::read(s),
        }
    }

    /// The same at another level.
    pub(super) fn with_level(&self, level: String) -> Self {
        Self { level, ..self.clone() }
    }

    /// With what the environment says by OpenTelemetry's own names where the file says nothing. What cannot be read there is passed over, as
    /// its specification asks.
    pub(super) fn with_environment(mut self, env: &dyn Env) -> Self {
        self.otlp = std::mem::take(&mut self.written).complete(env);
        self
    }
}

impl Written {
    fn read(s: &mut Section<'_>) -> Self {
        let protocol = s.has("otlp_protocol").then_some(OtlpProtocol::Grpc);
        let protocols = [("grpc", OtlpProtocol::Grpc), ("http", OtlpProtocol::Http)];
        let chosen = s.choice("otlp_protocol", OtlpProtocol::Grpc, &protocols);
        let sample = s.has("sample");
        let share = s.number("sample", 1.0, 0.0..=1.0);
        Self {
            endpoint: http_url(s, "otlp_endpoint"),
            protocol: protocol.and(Some(chosen)),
            headers: s.secrets("otlp_headers", header_problem),
            ca: s.file_text("otlp_ca_file"),
            timeout: s.millis("otlp_timeout_ms", 1),
            metrics_every: s.seconds("otlp_metrics_seconds", 0),
            sample: sample.then_some(share),
            service_name: s.name("service_name"),
            resource: s.texts("resource"),
        }
    }

    fn complete(self, env: &dyn Env) -> Option<Otlp> {
        let var = |name: &str| env.var(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        if var("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return None;
        }
        let endpoint =
            self.endpoint.or_else(|| var("OTEL_EXPORTER_OTLP_ENDPOINT").and_then(|text| parse_http_url(&text)))?;
        let protocol = self.protocol.or_else(|| match var("OTEL_EXPORTER_OTLP_PROTOCOL")?.as_str() {
            "grpc" => Some(OtlpProtocol::Grpc),
            "http/protobuf" => Some(OtlpProtocol::Http),
            _ => None,
        });
        let by_port = || {
            let port = endpoint.parse::<http::Uri>().ok().and_then(|uri| uri.port_u16());
            if port == Some(HTTP_PORT) { OtlpProtocol::Http } else { OtlpProtocol::Grpc }
        };
        let millis = |name: &str| var(name).and_then(|text| text.parse().ok()).map(Duration::from_millis);
        let off = |name: &str| var(name).is_some_and(|text| text == "none");
        let mut headers = self.headers;
        if headers.is_empty() {
            let pairs = pairs(&var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default());
            headers = pairs.into_iter().map(|(name, value)| (name, Secret::from(value))).collect();
        }
        let mut resource = pairs(&var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
        resource.retain(|(name, _)| !self.resource.iter().any(|(own, _)| own == name));
        resource.extend(self.resource);
        let named = resource.iter().position(|(name, _)| name == "service.name").map(|at| resource.remove(at).1);
        let metrics_every = self.metrics_every.or_else(|| {
            if off("OTEL_METRICS_EXPORTER") { Some(Duration::ZERO) } else { millis("OTEL_METRIC_EXPORT_INTERVAL") }
        });
        Some(Otlp {
            protocol: protocol.unwrap_or_else(by_port),
            endpoint,
            headers,
            ca: self.ca,
            timeout: self.timeout.or_else(|| millis("OTEL_EXPORTER_OTLP_TIMEOUT")).unwrap_or(Duration::from_secs(10)),
            metrics_every: Some(metrics_every.unwrap_or(Duration::from_secs(60))).filter(|every| !every.is_zero()),
            sample: self.sample.unwrap_or_else(|| sample(&var)),
            service_name: self
                .service_name
                .or_else(|| var("OTEL_SERVICE_NAME"))
                .or(named)
                .unwrap_or_else(|| "backstory".to_owned()),
            resource,
        })
    }
}

/// The share that the environment asks for.
fn sample(var: &dyn Fn(&str) -> Option<String>) -> f64 {
    if var("OTEL_TRACES_EXPORTER").is_some_and(|text| text == "none") {
        return 0.0;
    }
    match var("OTEL_TRACES_SAMPLER").as_deref() {
        Some("always_off" | "parentbased_always_off") => 0.0,
        Some("traceidratio" | "parentbased_traceidratio") => var("OTEL_TRACES_SAMPLER_ARG")
            .and_then(|text| text.parse().ok())
            .filter(|share| (0.0..=1.0).contains(share))
            .unwrap_or(1.0),
        _ => 1.0,
    }
}

/// `a=1,b=2`, percent-encoded as in W3C Baggage; what is no pair is passed over.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let decoded = pairs.map(|(name, value)| (decoded(name.trim()), decoded(value.trim())));
    decoded.filter(|(name, _)| !name.is_empty()).collect()
}

fn decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A bare word must be a level: as a filter any word would pass, and quietly silence the log.
fn is_filter(text: &str) -> bool {
    let is_level = |word: &str| ["error", "warn", "info", "debug", "trace", "off"].contains(&word);
    let words_fit = text.split(',').all(|part| part.contains('=') || is_level(part.trim()));
    words_fit && tracing_subscriber::EnvFilter::try_new(text).is_ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::env::tests::MapEnv;
    use super::super::{Config, Overrides};
    use super::*;

    fn otlp(text: &str, vars: &[(&'static str, &str)]) -> Option<Otlp> {
        let env = MapEnv::with(vars);
        let text = format!("[telemetry]\n{text}");
        let config = Config::parse(&text, Path::new("t.toml"), &env, &Overrides::default());
        config.unwrap_or_else(|errors| panic!("{errors}")).telemetry.otlp
    }

    #[test]
    fn nothing_is_exported_unless_somebody_says_where_to() {
        assert!(otlp("", &[]).is_none());
        assert!(otlp("sample = 0.5\n", &[("OTEL_SERVICE_NAME", "x")]).is_none());
        let found = otlp("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")]).unwrap();
        assert_eq!((found.endpoint.as_str(), found.protocol), ("http://collector:4318", OtlpProtocol::Http));
        let disabled = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), ("OTEL_SDK_DISABLED", "true")];
        assert!(otlp("", &disabled).is_none());
    }

    #[test]
    fn without_a_protocol_the_port_tells_it() {
        let protocol = |text: &str| otlp(text, &[]).unwrap().protocol;
        assert_eq!(protocol("otlp_endpoint = \"http://h:4317\"\n"), OtlpProtocol::Grpc);
        assert_eq!(protocol("otlp_endpoint = \"http://h:4318\"\n"), OtlpProtocol::Http);
        assert_eq!(protocol("otlp_endpoint = \"https://h/otlp\"\notlp_protocol = \"http\"\n"), OtlpProtocol::Http);
    }

    #[test]
    fn the_file_wins_over_the_environment_which_says_the_rest() {
        let vars = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://other:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc,x-tenant=t"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_SERVICE_NAME", "other"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod,team=a"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ];
        let text =
            "otlp_endpoint = \"http://mine:4317\"\nservice_name = \"mine\"\n[telemetry.resource]\nteam = \"b\"\n";
        let found = otlp(text, &vars).unwrap();
        assert_eq!((found.endpoint.as_str(), found.service_name.as_str()), ("http://mine:4317", "mine"));
        let headers: Vec<_> = found.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(headers, [("authorization", "Basic abc"), ("x-tenant", "t")]);
        assert_eq!((found.timeout, found.metrics_every), (Duration::from_millis(250), None));
        assert!((found.sample - 0.25).abs() < 1e-9);
        let resource: Vec<_> = found.resource.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(resource, [("deployment.environment.name", "prod"), ("team", "b")]);
    }

    #[test]
    fn what_cannot_be_read_in_the_environment_is_passed_over() {
        let vars = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "nonsense,=,%zz=%"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "7"),
        ];
        let found = otlp("otlp_endpoint = \"http://h:4317\"\n", &vars).unwrap();
        assert_eq!((found.protocol, found.timeout), (OtlpProtocol::Grpc, Duration::from_secs(10)));
        assert!((found.sample - 1.0).abs() < 1e-9);
        assert!(otlp("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "not a url")]).is_none());
    }
}
