//! Wake-ups of a task by itself.
//!
//! A connection wakes the task that drives it while it is driven: who reads a request's body wakes whoever fills it, and both are the same task. The
//! runtime puts such a task behind all others and wakes another thread for it, which then takes it over: two system calls and a change of cores for
//! each request, which take longer than all that we do for it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// So many times in a row something is polled; what wakes itself on and on is not to keep others waiting.
const POLLS: usize = 3;

/// Nobody polls it: to wake it is to wake its task.
const IDLE: u8 = 0;
/// It is being polled.
const POLLED: u8 = 1;
/// It was woken meanwhile.
const WOKEN: u8 = 2;

/// What something wakes in place of its task. Woken while it is polled it is polled again at once, and the task hears nothing of it.
pub struct Bell {
    rung: Arc<Rung>,
    waker: Waker,
}

struct Rung {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Of a poll that is under way the poller learns by the state.
        if self.state.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire) == Err(IDLE) {
            self.task.wake();
        }
    }
}

impl Default for Bell {
    fn default() -> Self {
        let rung = Arc::new(Rung { state: AtomicU8::new(IDLE), task: AtomicWaker::new() });
        Self { waker: Arc::clone(&rung).into(), rung }
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}

impl Bell {
    /// Polls something that is always polled by this bell.
    pub fn poll<T>(&self, cx: &Context<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let state = &self.rung.state;
        self.rung.task.register(cx.waker());
        for _ in 0..POLLS {
            state.store(POLLED, Ordering::Release);
            let polled = poll(&mut Context::from_waker(&self.waker));
            let was_quiet = state.swap(IDLE, Ordering::AcqRel) == POLLED;
            if polled.is_ready() || was_quiet {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Task(AtomicU8);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Task {
        fn woken(&self) -> u8 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn what_wakes_itself_is_polled_again_and_its_task_hears_nothing() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let (bell, mut polls) = (Bell::default(), 0);
        let mut kept = None;
        let polled = bell.poll(&Context::from_waker(&waker), |cx| {
            polls += 1;
            kept = Some(cx.waker().clone());
            if polls == 1 {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, task.woken()), (2, 0));
        // From outside of a poll it is the task that is woken.
        kept.unwrap().wake();
        assert_eq!(task.woken(), 1);
    }

    #[test]
    fn what_never_rests_lets_others_have_their_turn() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let (bell, mut polls) = (Bell::default(), 0);
        let polled = bell.poll(&Context::from_waker(&waker), |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, task.woken()), (POLLS, 1));
    }
}
