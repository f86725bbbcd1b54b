//! How many conversations begin for whom, where the *body* of a request says for whom.
//!
//! Some frameworks put one constant into `user`: then all their users would share one memory. `doctor` warns of it, from what is
//! counted here. Bounded, and it says nothing of anybody: names are hashed before they are stored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::exchange::SubjectSource;
use crate::store::SubjectUse;

/// Subjects that are counted apart between two times that the counts are taken.
const MAX_SUBJECTS: usize = 1_024;
/// Of each tenant and place so many are stored apart; the rest is stored as one.
const MAX_KEPT: usize = 16;

/// Stands for all that are not counted apart. No subject is empty.
pub const OTHERS: &str = "";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    tenant: Arc<str>,
    namespace: Arc<str>,
    source: SubjectSource,
}

/// Counts first turns of conversations.
#[derive(Debug, Default)]
pub struct Subjects(Mutex<HashMap<(Place, Arc<str>), u64>>);

impl Subjects {
    /// Counts a conversation that begins. When too many subjects are counted already, it counts for all others of its place.
    pub fn begun(&self, tenant: &Arc<str>, namespace: &Arc<str>, source: SubjectSource, subject: &Arc<str>) {
        let place = Place { tenant: Arc::clone(tenant), namespace: Arc::clone(namespace), source };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (place, Arc::clone(subject));
        if counts.len() >= MAX_SUBJECTS && !counts.contains_key(&key) {
            key.1 = Arc::from(OTHERS);
            if counts.len() >= 2 * MAX_SUBJECTS && !counts.contains_key(&key) {
                // As many tenants as subjects: nothing that a warning could rest on.
                return;
            }
        }
        *counts.entry(key).or_default() += 1;
    }

    /// Takes what was counted since the last time, the rare ones of each place summed up.
    #[must_use]
    pub fn take(&self) -> Vec<SubjectUse> {
        let counts = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut places: HashMap<Place, Vec<(Arc<str>, u64)>> = HashMap::new();
        for ((place, subject), n) in counts {
            places.entry(place).or_default().push((subject, n));
        }
        let mut uses = Vec::new();
        for (place, mut subjects) in places {
            subjects.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            let rest = subjects.split_off(subjects.len().min(MAX_KEPT));
            let others: u64 = rest.iter().map(|(_, n)| n).sum();
            if others > 0 {
                match subjects.iter_mut().find(|(subject, _)| **subject == *OTHERS) {
                    Some((_, n)) => *n += others,
                    None => subjects.push((Arc::from(OTHERS), others)),
                }
            }
            uses.extend(subjects.into_iter().map(|(subject, begun)| SubjectUse {
                tenant: place.tenant.to_string(),
                namespace: place.namespace.to_string(),
                source: source_name(place.source).to_owned(),
                subject: subject.to_string(),
                begun,
            }));
        }
        uses
    }
}

/// The place as requests and the config name it.
fn source_name(source: SubjectSource) -> &'static str {
    match source {
        SubjectSource::Header => "header",
        SubjectSource::MetadataUserId => "metadata.user_id",
        SubjectSource::SafetyIdentifier => "safety_identifier",
        SubjectSource::User => "user",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(subjects: &Subjects, subject: &str, times: usize) {
        for _ in 0..times {
            subjects.begun(&"acme".into(), &"support".into(), SubjectSource::User, &subject.into());
        }
    }

    fn taken(subjects: &Subjects) -> Vec<(String, u64)> {
        subjects.take().into_iter().map(|used| (used.subject, used.begun)).collect()
    }

    #[test]
    fn conversations_are_counted_and_taken_once() {
        let subjects = Subjects::default();
        begin(&subjects, "anonymous", 5);
        begin(&subjects, "ann", 1);
        assert_eq!(taken(&subjects), [("anonymous".to_owned(), 5), ("ann".to_owned(), 1)]);
        assert!(subjects.take().is_empty());
    }

    #[test]
    fn it_is_bounded_and_the_frequent_ones_stay_apart() {
        let subjects = Subjects::default();
        begin(&subjects, "anonymous", 9);
        for n in 0..2 * MAX_SUBJECTS {
            begin(&subjects, &format!("user {n}"), 1);
        }
        assert!(subjects.0.lock().unwrap().len() <= MAX_SUBJECTS + 1);
        let taken = taken(&subjects);
        assert!(taken.len() <= MAX_KEPT + 1, "{taken:?}");
        assert!(taken.contains(&("anonymous".to_owned(), 9)));
        assert_eq!(taken.iter().map(|(_, n)| n).sum::<u64>(), 9 + 2 * MAX_SUBJECTS as u64, "none is lost");
    }
}
