//! How many input tokens a request may have.

use crate::wire::ChatRequest;

use super::policy::{Policy, Target};

/// Where neither the client nor the policy says it, a reply gets this share of the window, …
const OUTPUT_SHARE: usize = 8;
/// … and never more than this.
const MAX_DEFAULT_OUTPUT: usize = 16_384;
/// A share of the window that is left free because counts of tools and unknown parts are estimates.
const MARGIN_SHARE: usize = 128;
/// Never more margin than this.
const MAX_MARGIN: usize = 1024;

/// How a budget came about, in tokens of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// What the request may have; `None` when nothing limits it.
    pub budget: Option<usize>,
    /// The target's window, if it is known.
    pub window: Option<usize>,
    /// Of the window, what is kept free for the reply.
    pub output_reserve: usize,
    /// Of the window, what is kept free because some counts are estimates.
    pub margin: usize,
}

/// Returns the budget: `min(policy, window − output reserve − margin)`, lowered by the request's header, never raised;
/// `None` when nothing limits the input.
pub(super) fn budget(request: &ChatRequest, target: &Target, policy: &Policy, header: Option<usize>) -> Allowance {
    let mut allowance = Allowance { window: target.window, ..Allowance::default() };
    let window = target.window.map(|window| {
        allowance.margin = margin(window);
        allowance.output_reserve = output_reserve(request.max_output(), window, target, policy);
        window.saturating_sub(allowance.output_reserve + allowance.margin)
    });
    let input = target.max_input.map(|limit| limit - margin(limit));
    let policy = Some(policy.max_input_tokens).filter(|&n| n > 0);
    allowance.budget = [window, input, policy, header].into_iter().flatten().min();
    allowance
}

/// Returns the tokens of input that fit into a target beside its reply; `None` when nothing is known that would limit them. `asked`
/// is the output that is asked of it, `window` the window in force.
#[must_use]
pub fn room(asked: Option<u64>, target: &Target, window: Option<usize>, policy: &Policy) -> Option<usize> {
    let window =
        window.map(|window| window.saturating_sub(output_reserve(asked, window, target, policy) + margin(window)));
    let input = target.max_input.map(|limit| limit - margin(limit));
    [window, input].into_iter().flatten().min()
}

fn margin(limit: usize) -> usize {
    (limit / MARGIN_SHARE).min(MAX_MARGIN)
}

/// Returns the tokens kept free for the reply.
///
/// What the client asks for is kept free, when it can be: a model whose output is as large as its window, or a client that
/// always asks for all of it, would leave nothing for the input.
fn output_reserve(asked: Option<u64>, window: usize, target: &Target, policy: &Policy) -> usize {
    match asked.and_then(|n| usize::try_from(n).ok()).filter(|&n| n < window) {
        Some(asked) => asked.min(window - window / 8),
        None => {
            let share = (window / OUTPUT_SHARE).min(MAX_DEFAULT_OUTPUT);
            let reserve = policy.output_reserve.unwrap_or(share);
            reserve.min(target.max_output.unwrap_or(usize::MAX)).min(window / 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn of(members: &str, window: Option<usize>, max_input_tokens: usize, header: Option<usize>) -> Option<usize> {
        let body = format!(r#"{{"model":"m","messages":[{{}}]{members}}}"#);
        let request = ChatRequest::decode(Bytes::from(body)).unwrap();
        let target = Target { window, max_output: window, ..Target::default() };
        budget(&request, &target, &Policy { max_input_tokens, ..Policy::default() }, header).budget
    }

    /// Guards against earendil-works/pi#8061 and can1357/oh-my-pi#12741.
    #[test]
    fn the_reply_is_kept_free_in_the_window() {
        assert_eq!(of(r#","max_tokens":1000"#, Some(4000), 0, None), Some(4000 - 1000 - 31));
        assert_eq!(of(r#","max_tokens":9,"max_completion_tokens":2000"#, Some(4000), 0, None), Some(1969));
        assert_eq!(of("", Some(8192), 0, None), Some(8192 - 1024 - 64));
    }

    #[test]
    fn a_limit_of_the_input_alone_holds_beside_the_window() {
        let request =
            ChatRequest::decode(Bytes::from_static(br#"{"model":"m","messages":[{}],"max_tokens":9}"#)).unwrap();
        let target = Target { window: Some(400_000), max_input: Some(272_000), ..Target::default() };
        assert_eq!(budget(&request, &target, &Policy::default(), None).budget, Some(272_000 - 1_024));
    }

    #[test]
    fn nonsense_in_max_tokens_leaves_the_default() {
        for members in [
            r#","max_tokens":0"#,
            r#","max_tokens":-5"#,
            r#","max_tokens":"9""#,
            r#","max_tokens":4096"#,
            r#","max_tokens":1e99"#,
        ] {
            assert_eq!(of(members, Some(4096), 0, None), Some(4096 - 512 - 32), "{members}");
        }
        assert!(of(r#","max_tokens":4095"#, Some(4096), 0, None) > Some(400));
    }

    #[test]
    fn a_header_may_lower_and_never_raise() {
        assert_eq!(of("", None, 500, Some(100)), Some(100));
        assert_eq!(of("", None, 500, Some(900)), Some(500));
        assert_eq!(of("", None, 0, Some(100)), Some(100));
        assert_eq!(of("", None, 0, None), None);
        assert_eq!(of(r#","max_tokens":10"#, Some(3), 0, None), Some(3));
    }
}
