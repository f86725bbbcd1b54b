//! The request that a task works on, so that each line of the log can name it.

use std::future::Future;

use tokio::task::futures::TaskLocalFuture;

use crate::base::RequestId;

tokio::task_local! {
    static REQUEST: RequestId;
}

/// Names the request while `work` is polled: two thread-local accesses a poll.
pub fn scope<F: Future>(id: RequestId, work: F) -> TaskLocalFuture<RequestId, F> {
    REQUEST.scope(id, work)
}

/// The request that this task works on.
pub(super) fn current() -> Option<RequestId> {
    REQUEST.try_with(|id| *id).ok()
}
