//! What `deploy/` says is true of this build: its configurations are taken, and what it watches exists.
//!
//! Whether its files have the form that compose, Kubernetes, Prometheus and the others want is checked by `scripts/check-deploy`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use backstory::config::{Config, Env, Overrides};
use backstory::mock::Script;
use regex::Regex;
use serde_json::Value;

use crate::support::Stack;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file)
}

/// Everything that is asked for is set.
struct Filled;

impl Env for Filled {
    fn var(&self, name: &str) -> Option<String> {
        let value = match name {
            "BACKSTORY_CONFIG" => return None,
            "POSTGRES_URL" => "postgres://user:password@host/database",
            "REDIS_URL" => "rediss://:password@host:6379",
            "UPSTREAM_URL" => "https://upstream.example/v1",
            _ => "0123456789abcdef0123456789abcdef",
        };
        // Keys have to differ from each other.
        Some(if name.ends_with("KEY") { format!("{name}-{value}") } else { value.to_owned() })
    }

    fn file(&self, path: &Path) -> std::io::Result<String> {
        fs::read_to_string(path)
    }
}

#[test]
fn the_configurations_of_deploy_are_taken() {
    for file in ["compose/backstory/backstory.toml", "kubernetes/backstory/backstory.toml"] {
        let config = Config::load_with(Some(&deploy(file)), &Filled, &Overrides::default());
        let config = config.unwrap_or_else(|mistakes| panic!("{file}: {mistakes}"));
        assert!(config.redis.url.is_some() && config.vectors.url.is_some(), "{file}");
    }
}

#[tokio::test]
async fn what_the_dashboard_and_the_alerts_ask_for_is_in_the_metrics() {
    let stack = Stack::of(Script::Model).start().await;
    stack.app.observe().await;
    let samples = samples(&stack.app.metrics.render());
    let mut asked = BTreeSet::new();
    for expression in dashboard().iter().chain(&alerts()) {
        for (metric, matchers) in selectors(expression) {
            let labels: Vec<&str> =
                samples.iter().filter(|(name, _)| *name == metric).map(|(_, l)| l.as_str()).collect();
            assert!(!labels.is_empty(), "{metric} is in no metrics: {expression}");
            for (label, value) in matchers {
                let pair = format!("{label}=\"{value}\"");
                assert!(labels.iter().any(|l| l.split(',').any(|l| l == pair)), "{metric} has no {pair}: {expression}");
            }
            for label in grouped(expression) {
                let is = |l: &&str| l.split(',').any(|l| l.starts_with(&format!("{label}=")));
                assert!(labels.iter().any(is), "{metric} has no label {label}: {expression}");
            }
            asked.insert(metric);
        }
    }
    assert!(asked.len() > 30, "only {asked:?} were found");
    stack.stop().await;
}

/// Names and labels of all samples.
fn samples(rendered: &str) -> BTreeSet<(String, String)> {
    let lines = rendered.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            (name.to_owned(), labels.trim_end_matches('}').to_owned())
        })
        .collect()
}

fn dashboard() -> Vec<String> {
    let board: Value = serde_json::from_str(&fs::read_to_string(deploy("grafana/backstory.json")).unwrap()).unwrap();
    let targets = board["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// What stands behind each `expr:`, also over several lines.
fn alerts() -> Vec<String> {
    let text = fs::read_to_string(deploy("prometheus/backstory.rules.yml")).unwrap();
    let mut expressions = Vec::new();
    for part in text.split("        expr: ").skip(1) {
        let own = |line: &&str| line.starts_with("          ") || !line.starts_with(' ');
        expressions.push(part.lines().take_while(own).collect::<Vec<_>>().join(" "));
    }
    assert!(expressions.len() > 5);
    expressions
}

static SELECTOR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(backstory_\w+)(?:\{([^}]*)\})?").unwrap());
static MATCHER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)""#).unwrap());
static GROUPED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bby \(([^)]*)\)").unwrap());

/// The metrics of an expression, each with the values of labels that it asks for, but for those that Prometheus adds.
fn selectors(expression: &str) -> Vec<(String, Vec<(String, String)>)> {
    let found = SELECTOR.captures_iter(expression).map(|found| {
        let matchers = found.get(2).map_or("", |matchers| matchers.as_str());
        let matchers = MATCHER.captures_iter(matchers).filter(|matcher| !by_prometheus(&matcher[1]));
        let values = matchers.flat_map(|matcher| {
            let label = matcher[1].to_owned();
            let values: Vec<_> = matcher[2].split('|').map(|value| (label.clone(), value.to_owned())).collect();
            values
        });
        (found[1].to_owned(), values.collect())
    });
    found.collect()
}

fn grouped(expression: &str) -> Vec<String> {
    let groups = GROUPED.captures_iter(expression);
    let labels = groups.flat_map(|group| group[1].split(',').map(|l| l.trim().to_owned()).collect::<Vec<_>>());
    labels.filter(|label| !by_prometheus(label)).collect()
}

fn by_prometheus(label: &str) -> bool {
    matches!(label, "job" | "instance")
}
