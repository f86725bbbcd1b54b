//! Names of users that carry a session with them.

use super::scan::{self, Span};
use super::text::decode_lossy;

/// Returns whom a name means that has a session in it; `None` for any other name, which is whole as it is.
///
/// A coding agent writes itself into `metadata.user_id` as device, account and session, older versions as
/// `user_<device>_account_<account>_session_<session>`, newer ones as a JSON object (`device_id`, `account_uuid`, `session_id`) in a string. The
/// session is new with each start, so memory that is kept under it would never be found again. Both forms of one user give one name.
///
/// Source: ding113/claude-code-hub#939, coder/aibridge#241 (the forms of both generations, as of 2026-03).
#[must_use]
pub fn without_session(name: &str) -> Option<String> {
    let (device, account) = of_object(name).or_else(|| of_text(name))?;
    match (&*device, &*account) {
        ("", "") => None,
        (device, "") => Some(format!("user_{device}")),
        ("", account) => Some(format!("account_{account}")),
        (device, account) => Some(format!("user_{device}_account_{account}")),
    }
}

/// `user_<device>_account_<account>_session_<session>`; the account may be empty.
fn of_text(name: &str) -> Option<(String, String)> {
    let (user, _session) = name.strip_prefix("user_")?.rsplit_once("_session_")?;
    let (device, account) = user.split_once("_account_").or_else(|| user.strip_suffix("_account").map(|d| (d, "")))?;
    Some((device.to_owned(), account.to_owned()))
}

fn of_object(name: &str) -> Option<(String, String)> {
    if !name.starts_with('{') || scan::validate(name).is_err() {
        return None;
    }
    let whole = Span::new(0, name.len());
    let member = |key| {
        let literal = scan::member(name, whole, key)?.of(name);
        literal.starts_with('"').then(|| decode_lossy(literal).into_owned())
    };
    member("session_id")?;
    Some((member("device_id").unwrap_or_default(), member("account_uuid").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_taken_off_and_both_forms_name_one_user() {
        let session = "57a121ec-f78c-48c3-a745-e3036a3ecc33";
        let with = |account: &str| {
            [
                format!("user_a1b2_account_{account}_session_{session}"),
                format!(r#"{{"device_id":"a1b2","account_uuid":"{account}","session_id":"{session}"}}"#),
            ]
        };
        for name in with("0c-9d") {
            assert_eq!(without_session(&name).as_deref(), Some("user_a1b2_account_0c-9d"), "{name}");
        }
        for name in with("") {
            assert_eq!(without_session(&name).as_deref(), Some("user_a1b2"), "{name}");
        }
    }

    #[test]
    fn other_names_are_whole() {
        for name in [
            "alice",
            "user_7",
            "user_7_session_8",
            "",
            "{}",
            "{",
            r#"{"id":"x"}"#,
            r#"{"session_id":"s"}"#,
            "a_session_b",
        ] {
            assert_eq!(without_session(name), None, "{name}");
        }
    }
}
