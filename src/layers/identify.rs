//! `Identify`: subject, namespace, switches and the budget policy of a request.

use std::borrow::Cow;
use std::sync::Arc;

use super::stage::Stage;
use crate::access::{BodyNames, identify};
use crate::base::{ErrorKind, GatewayError};
use crate::context::{Policies, Profile};
use crate::exchange::{Call, Decoded, Identity, Payload, SubjectSource, Switch};

/// Finds out whose memory a request touches; refuses with 403 a header that the key may not use.
#[derive(Debug)]
pub struct Identify {
    /// The configured budget policies.
    pub policies: Arc<Policies>,
    /// Whether anything is learned at all.
    pub learn: bool,
}

impl Stage<Decoded> for Identify {
    type Out = Call;

    async fn run(&self, input: Decoded) -> Result<Call, GatewayError> {
        let Decoded { stamp, principal, credential, headers, payload } = input;
        let mut identity = identify(&principal, &headers, &payload)?;
        identity.memory.write &= self.learn;
        let policy = self.policies.of(payload.model(), &principal.budget);
        let without = if payload.chat().is_none() {
            Some("not-chat")
        } else if policy.profile == Profile::Single {
            Some("profile")
        } else {
            None
        };
        if without.is_some() {
            identity = Identity { memory: Switch::OFF, skipped: without, ..identity };
        }
        let budget_header = match headers.get("x-backstory-budget") {
            None => None,
            Some(value) => {
                Some(value.to_str().ok().and_then(|v| v.trim().parse::<usize>().ok()).filter(|n| *n > 0).ok_or_else(
                    || {
                        GatewayError::new(
                            ErrorKind::BadRequest,
                            "x-backstory-budget must be a positive number of tokens",
                        )
                        .with_param("x-backstory-budget")
                    },
                )?)
            }
        };
        Ok(Call { stamp, principal, credential, headers, payload, identity, policy, budget_header })
    }
}

impl BodyNames for Payload {
    fn name(&self, source: SubjectSource) -> Option<Cow<'_, str>> {
        let request = self.chat()?;
        match source {
            SubjectSource::Header => None,
            SubjectSource::MetadataUserId => request.get_nested_string("metadata", "user_id"),
            SubjectSource::SafetyIdentifier => request.get_string("safety_identifier"),
            SubjectSource::User => request.get_string("user"),
        }
    }
}
