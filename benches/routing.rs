//! What routing costs a request: the plan over ten targets with conditions, parameter rules, and the headers that go upstream.
//!
//! Left out, since it takes a whole gateway to get there: the order by window (it reads what was learned of each target), which of them cool, and
//! taking the lane of a key.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use backstory::base::Secret;
use backstory::context::PolicyChanges;
use backstory::exchange::{Credential, Limits, MemoryApi, Payload, Principal, SubjectRule, Switch};
use backstory::memory::Sensitivity;
use backstory::tokens::{ModelTable, PriceChanges};
use backstory::upstream::{Api, Auth, ModelConfig, Pick, Provider, ProviderConfig, Routes, TargetConfig, Traits, When};
use backstory::wire::{ChatRequest, ParamRules};
use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderValue};
use serde_json::json;

const N_TARGETS: u32 = 10;

fn provider(at: u32) -> Arc<Provider> {
    let keys = ["a", "b", "c"].map(|key| Secret::from(format!("sk-{key}-{at}-0123456789abcdef").as_str()));
    let config = ProviderConfig {
        api: Api::default(),
        name: format!("provider-{at}"),
        base_url: format!("http://10.0.0.{at}:8000/v1"),
        auth: Auth::Keys(keys.to_vec()),
        headers: [(http::header::REFERER, HeaderValue::from_static("https://app.example"))].into_iter().collect(),
        max_sensitivity: Sensitivity::Sensitive,
        connect_timeout: Duration::from_secs(1),
    };
    Arc::new(Provider::new(config).expect("the configuration is sound"))
}

fn rules() -> ParamRules {
    let mut rules = ParamRules::default();
    let made = [
        rules.rename("max_tokens", "max_completion_tokens"),
        rules.set("reasoning.effort", "\"low\""),
        rules.default_to("top_p", "0.9"),
        rules.drop_member("logit_bias"),
    ];
    assert!(made.iter().all(Result::is_ok));
    rules
}

fn routes(pick: Pick) -> Routes {
    let params = Arc::new(rules());
    let target = |at: u32| TargetConfig {
        before: None,
        provider: provider(at),
        model: format!("upstream-model-{at}"),
        window: Some(128_000),
        max_output: Some(16_384),
        price: PriceChanges::default(),
        order: at / 5,
        weight: 1 + at % 3,
        when: When { tools: at.is_multiple_of(4).then_some(false), ..When::default() },
        params: Some(Arc::clone(&params)),
    };
    let model = ModelConfig {
        name: "assistant".to_owned(),
        aliases: Vec::new(),
        targets: (0..N_TARGETS).map(target).collect(),
        pick,
    };
    Routes::new(vec![model], vec!["assistant".to_owned()], None, false, ModelTable::built_in())
}

fn principal() -> Principal {
    Principal {
        tenant: "acme".into(),
        namespace: "default".into(),
        read_namespaces: Vec::new(),
        any_namespace: false,
        subject: SubjectRule { from: Vec::new(), default: None, may_name: true },
        memory: Switch::ON,
        memory_api: MemoryApi::Write,
        may_edit: false,
        models: (0..20).map(|at| format!("model-{at}")).chain(["assistant".to_owned()]).collect(),
        passthrough: Vec::new(),
        max_sensitivity: Sensitivity::Sensitive,
        budget: PolicyChanges::default(),
        key: 1,
        key_name: "bench".into(),
        limits: Limits::default(),
        each_subject: Limits::default(),
    }
}

fn payload() -> Payload {
    let body = json!({
        "model": "assistant", "max_tokens": 256, "temperature": 0.7, "stream": true, "logit_bias": {"50256": -100},
        "messages": [
            {"role": "system", "content": "You are the support assistant of a shop. Be brief, and name the order you speak of."},
            {"role": "user", "content": "My order 48213 was to arrive on Tuesday. Where is it, and can I still change the address?"},
            {"role": "assistant", "content": "Order 48213 left our warehouse on Monday and is due tomorrow."},
            {"role": "user", "content": "Then please have it brought to my office instead of my home."},
        ],
        "user": "ann",
    });
    Payload::Chat(ChatRequest::decode(Bytes::from(body.to_string())).expect("a chat request"))
}

fn client_headers() -> HeaderMap {
    let pairs = [
        ("host", "gateway.example"),
        ("authorization", "Bearer bk-virtual"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("accept-encoding", "gzip, deflate, br"),
        ("user-agent", "OpenAI/Python 2.3.0"),
        ("x-stainless-lang", "python"),
        ("x-stainless-retry-count", "0"),
        ("x-backstory-user", "ann"),
        ("content-length", "712"),
    ];
    pairs.into_iter().map(|(n, v)| (http::HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
}

fn benches(c: &mut Criterion) {
    let (principal, payload, headers) = (principal(), payload(), client_headers());
    let chat = payload.chat().expect("it is one");
    let mut group = c.benchmark_group("routing");
    for (name, pick) in [("weighted", Pick::Weighted), ("least-latency", Pick::LeastLatency)] {
        let routes = routes(pick);
        let mut spread = 0_u64;
        group.bench_function(format!("plan of {N_TARGETS} targets, {name}"), |b| {
            b.iter(|| {
                spread = spread.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let model = routes.model(&principal, "assistant").expect("it is configured");
                black_box(model.plan(&Traits::of(&payload), spread).expect("some take it"))
            });
        });
        group.bench_function(format!("plan, headers and rules, {name}"), |b| {
            b.iter(|| {
                spread = spread.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let model = routes.model(&principal, "assistant").expect("it is configured");
                let plan = model.plan(&Traits::of(&payload), spread).expect("some take it");
                let target = &plan[0];
                let headers = target.provider.headers_for(&headers, &Credential::Virtual);
                let patches = target.params.as_deref().map(|rules| rules.patches(chat.text())).unwrap_or_default();
                // A changed request is read anew, to be fitted.
                let request = ChatRequest::decode(patches.apply(chat.body())).expect("it stays a chat request");
                black_box((headers, request))
            });
        });
    }
    let rules = rules();
    group.bench_function("parameter rules alone", |b| {
        b.iter(|| black_box(rules.patches(chat.text()).apply(chat.body())))
    });
    group.finish();
}

criterion_group!(routing, benches);
criterion_main!(routing);
