//! Who the spans and numbers are from.

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::{Attributes, ResourceAttributesWithSchema};

use crate::base::Random;

/// The attributes of everything that this process exports.
#[derive(Debug)]
pub(super) struct Origin(ResourceAttributesWithSchema);

impl Origin {
    /// `own` is what the operator says of this process; it wins over what we say.
    pub(super) fn new(service_name: &str, own: &[(String, String)], random: &dyn Random) -> Self {
        let mut all = vec![
            ("service.name".to_owned(), service_name.to_owned()),
            ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("service.instance.id".to_owned(), format!("{:016x}", random.next_u64())),
            ("telemetry.sdk.name".to_owned(), "opentelemetry".to_owned()),
            ("telemetry.sdk.language".to_owned(), "rust".to_owned()),
        ];
        all.retain(|(key, _)| !own.iter().any(|(name, _)| name == key));
        all.extend(own.iter().cloned());
        let attributes = Attributes::from(all.into_iter().map(|(key, value)| KeyValue::new(key, value)));
        Self(ResourceAttributesWithSchema { attributes, schema_url: None })
    }

    /// For spans.
    pub(super) fn of_spans(&self) -> &ResourceAttributesWithSchema {
        &self.0
    }

    /// For numbers.
    pub(super) fn of_numbers(&self) -> Resource {
        Resource { attributes: self.0.attributes.0.clone(), ..Resource::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededRandom;

    #[test]
    fn what_the_operator_says_wins() {
        let own = [
            ("service.version".to_owned(), "mine".to_owned()),
            ("deployment.environment.name".to_owned(), "prod".to_owned()),
        ];
        let origin = Origin::new("gateway", &own, &SeededRandom::new(1)).of_numbers();
        let keys: Vec<&str> = origin.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        assert_eq!(keys.iter().filter(|key| **key == "service.version").count(), 1);
        assert!(keys.contains(&"deployment.environment.name") && keys.contains(&"service.name"), "{keys:?}");
    }
}
