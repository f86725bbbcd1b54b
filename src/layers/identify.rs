//! `Identify`: subject, namespace, switches and the budget policy of a request.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderName;

use super::stage::Stage;
use crate::access::{BodyName, BodyNames, Subjects, identify};
use crate::base::{ErrorKind, GatewayError};
use crate::context::{Policies, Profile};
use crate::exchange::{Call, Decoded, Identity, Payload, Principal, Progress, SubjectSource, Switch};
use crate::wire::{Role, decode, without_session};

const BUDGET: HeaderName = HeaderName::from_static("x-backstory-budget");

/// Finds out whose memory a request touches; refuses with 403 a header that the key may not use.
#[derive(Debug)]
pub struct Identify {
    /// The configured budget policies.
    pub policies: Arc<Policies>,
    /// Whether anything is learned at all.
    pub learn: bool,
    /// Counts for whom conversations begin; `None` for requests that are only looked at.
    pub subjects: Option<Arc<Subjects>>,
}

impl Stage<Decoded> for Identify {
    type Out = Call;

    async fn run(&self, input: Decoded) -> Result<Call, GatewayError> {
        let Decoded { stamp, principal, credential, headers, payload } = input;
        let mut identity = identify(&principal, &headers, &payload)?;
        identity.memory.write &= self.learn;
        self.count(&principal, &identity, &payload);
        let policy = self.policies.of(payload.model(), &principal.budget);
        let without = if payload.chat().is_none() {
            Some("not-chat")
        } else if policy.profile == Profile::Single {
            Some("profile")
        } else {
            None
        };
        if without.is_some() {
            identity = Identity { memory: Switch::OFF, skipped: without, knowledge: Vec::new(), ..identity };
        }
        let budget_header = match headers.get(BUDGET) {
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
        let progress = Progress::default();
        let reserved = None;
        let continues = None;
        Ok(Call {
            stamp,
            principal,
            credential,
            headers,
            payload,
            identity,
            policy,
            budget_header,
            reserved,
            progress,
            continues,
        })
    }
}

impl Identify {
    /// Counts the first turn of a conversation whose subject the body names.
    fn count(&self, principal: &Principal, identity: &Identity, payload: &Payload) {
        let (Some(subjects), Some(chat), Some(scope), Some(source)) =
            (&self.subjects, payload.chat(), &identity.scope, identity.named_by)
        else {
            return;
        };
        let turns = chat.messages().iter().filter(|message| message.role == Role::User).take(2).count();
        // A later turn of a conversation that upstream keeps has one message, too.
        let begins = turns == 1 && chat.kept_upstream().is_none();
        if source != SubjectSource::Header && begins {
            subjects.begun(&principal.tenant, &identity.namespace, source, &scope.subject);
        }
    }
}

impl BodyNames for Payload {
    fn name(&self, source: SubjectSource) -> Option<BodyName<'_>> {
        let request = self.chat()?;
        let said = match source {
            SubjectSource::Header => None,
            SubjectSource::MetadataUserId => request.get_nested("metadata", "user_id"),
            SubjectSource::SafetyIdentifier => request.get("safety_identifier"),
            SubjectSource::User => request.get("user"),
        };
        let said = said.filter(|literal| *literal != "null")?;
        // To the letter: names that differ in what no text can hold are those of different people.
        let Some(name) = decode(said) else { return Some(BodyName::Unreadable) };
        Some(BodyName::Text(without_session(&name).map_or(name, Cow::Owned)))
    }
}
