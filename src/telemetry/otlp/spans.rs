//! The last touch on spans before they are sent: off the path of the requests that they tell of.

use opentelemetry::trace::SpanKind;
use opentelemetry::{KeyValue, StringValue, Value};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::trace::SpanData;

use crate::telemetry::names;

/// Longest text of an attribute, in bytes: names of models and paths are what a client wants them to be.
const MAX_TEXT_BYTES: usize = 256;

/// The request that exports a batch.
pub(super) fn message(spans: Vec<SpanData>, resource: &ResourceAttributesWithSchema) -> ExportTraceServiceRequest {
    let spans = spans.into_iter().map(finished).collect();
    ExportTraceServiceRequest { resource_spans: group_spans_by_resource_and_scope(spans, resource) }
}

fn finished(mut span: SpanData) -> SpanData {
    if span.name == names::STORE {
        // The database conventions: the operation is the name, and whoever asks a database is its client.
        let operation = span.attributes.iter().find(|attribute| attribute.key.as_str() == names::DB_OPERATION);
        if let Some(operation) = operation.map(|attribute| attribute.value.to_string()) {
            span.name = operation.into();
        }
        span.span_kind = SpanKind::Client;
    }
    keep_newest(&mut span.attributes);
    span.attributes.iter_mut().for_each(clip);
    span
}

/// What was recorded twice is there twice; what was said last holds.
fn keep_newest(attributes: &mut Vec<KeyValue>) {
    let mut at = 0;
    while at < attributes.len() {
        if attributes[at + 1..].iter().any(|later| later.key == attributes[at].key) {
            attributes.remove(at);
        } else {
            at += 1;
        }
    }
}

fn clip(attribute: &mut KeyValue) {
    if let Value::String(text) = &attribute.value {
        let text = text.as_str();
        if text.len() > MAX_TEXT_BYTES {
            let head = text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned();
            attribute.value = Value::String(StringValue::from(head));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::UNIX_EPOCH;

    use opentelemetry::InstrumentationScope;
    use opentelemetry::trace::{SpanContext, SpanId, Status};

    use super::*;

    pub(in crate::telemetry::otlp) fn span(name: &'static str, attributes: Vec<KeyValue>) -> SpanData {
        SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: UNIX_EPOCH,
            end_time: UNIX_EPOCH,
            attributes,
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("test").build(),
        }
    }

    #[test]
    fn a_store_call_is_named_by_what_it_does() {
        let named = finished(span(names::STORE, vec![KeyValue::new("db.operation.name", "list_facts")]));
        assert_eq!((named.name.as_ref(), named.span_kind), ("list_facts", SpanKind::Client));
        assert_eq!(finished(span("recall", Vec::new())).name, "recall");
    }

    #[test]
    fn of_what_was_recorded_twice_the_newest_is_told() {
        let attributes = vec![KeyValue::new("a", 1), KeyValue::new("b", 2), KeyValue::new("a", 3)];
        let told = finished(span("attempt", attributes)).attributes;
        assert_eq!(told, [KeyValue::new("b", 2), KeyValue::new("a", 3)]);
    }

    #[test]
    fn long_texts_are_clipped_between_characters() {
        let clipped = finished(span("request", vec![KeyValue::new("url.path", "ü".repeat(1000))]));
        assert_eq!(clipped.attributes[0].value.as_str().len(), 256);
    }
}
