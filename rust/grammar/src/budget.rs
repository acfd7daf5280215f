//! What a compilation may take: so much work, which is the same on every machine, and so much time, which is not. What it
//! has to tell of its parts is collected beside that, and how the request wants JSON written is said here to all of them.

use super::spec::JsonStyle;
use crate::error::{Error, Result};
use crate::types::Narrowed;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Steps between two looks at the clock.
const LOOK: u64 = 256;

/// What is left to one compilation.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    /// Steps that there were at first.
    steps: u64,
    until: Instant,
    cancelled: Arc<AtomicBool>,
    narrowed: RefCell<Vec<Narrowed>>,
    style: RefCell<JsonStyle>,
}

impl Budget {
    /// For a compilation that begins now; it ends soon after `cancelled` is set.
    pub(super) fn new((steps, time): (u64, Duration), cancelled: Arc<AtomicBool>) -> Self {
        Budget {
            left: Cell::new(steps),
            steps,
            until: Instant::now() + time,
            cancelled,
            narrowed: RefCell::default(),
            style: RefCell::default(),
        }
    }

    /// Time enough.
    #[cfg(test)]
    pub(super) fn of_a_test() -> Self {
        Budget::new((1_000_000, Duration::from_secs(600)), Arc::default())
    }

    /// Takes some steps.
    ///
    /// # Errors
    /// `Error::Invalid` with the code `grammar_too_complex` where none or no time is left, or nobody waits any more.
    pub(super) fn spend(&self, steps: usize) -> Result<()> {
        let before = self.left.get();
        let left = before.saturating_sub(steps as u64);
        self.left.set(left);
        if left == 0 {
            let why = format!(
                "takes more than {} steps to compile; make it simpler, for example give each branch of oneOf a required key with a \
                 const (the server's limit is grammar.compile_steps)",
                self.steps
            );
            return Err(Error::invalid_code("grammar", why, "grammar_too_complex"));
        }
        if before / LOOK != left / LOOK && self.is_over() { Err(too_slow()) } else { Ok(()) }
    }

    /// Runs `part` with one part in `share` of the steps that there were at first. None where it needs more.
    ///
    /// # Errors
    /// Those of `part`, or of [`Budget::spend`] where there are no more steps altogether.
    pub(super) fn share<T>(&self, share: u64, part: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        let left = self.left.get();
        let given = left.min(self.steps / share);
        self.left.set(given);
        let done = part();
        let kept = self.left.get();
        self.left.set(left - given + kept);
        if kept == 0 && given < left { Ok(None) } else { done.map(Some) }
    }

    /// How JSON is written from now on.
    pub(super) fn set_style(&self, style: &JsonStyle) {
        self.style.replace(style.clone());
    }

    pub(super) fn style(&self) -> JsonStyle {
        self.style.borrow().clone()
    }

    /// How much has been noted.
    pub(super) fn notes(&self) -> usize {
        self.narrowed.borrow().len()
    }

    /// Notes, once, that less is allowed somewhere.
    pub(super) fn note(&self, narrowed: Narrowed) {
        let mut notes = self.narrowed.borrow_mut();
        if !notes.contains(&narrowed) {
            notes.push(narrowed);
        }
    }

    /// Compiles a part of a larger document: what it refuses and notes is at `prefix` there.
    pub(super) fn within<T>(&self, prefix: &str, part: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.notes();
        let result = part();
        for narrowed in &mut self.narrowed.borrow_mut()[before..] {
            narrowed.pointer.insert_str(0, prefix);
        }
        result.map_err(|e| match e {
            Error::Grammar { pointer, keyword, why } => {
                Error::Grammar { pointer: format!("{prefix}{pointer}"), keyword, why }
            }
            other => other,
        })
    }

    /// All that was noted, but for so many notes.
    pub(super) fn take_notes(&self, before: usize) -> Vec<Narrowed> {
        self.narrowed.borrow_mut().split_off(before)
    }

    /// Whether the time is over, or nobody waits any more: the spec may not be at fault.
    pub(super) fn is_over(&self) -> bool {
        self.cancelled.load(Relaxed) || Instant::now() >= self.until
    }
}

/// The refusal of what takes too long.
pub(super) fn too_slow() -> Error {
    let why = "takes too long to compile; make it simpler (the server's limit is grammar.compile_seconds)";
    Error::invalid_code("grammar", why, "grammar_too_complex")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(budget: &Budget) -> u64 {
        (0..).find(|_| budget.spend(1).is_err()).unwrap()
    }

    #[test]
    fn work_ends_at_the_same_place_everywhere() {
        let budget = Budget::of_a_test;
        assert_eq!((spent(&budget()), spent(&budget())), (999_999, 999_999));
        let error = budget().spend(1_000_000).unwrap_err().to_string();
        assert!(error.contains("1000000 steps") && error.contains("grammar.compile_steps"), "{error}");
    }

    #[test]
    fn a_part_takes_its_share_at_most() {
        let budget = Budget::of_a_test();
        let endless = || -> Result<()> {
            loop {
                budget.spend(7)?
            }
        };
        assert!(matches!(budget.share(10, endless), Ok(None)));
        assert!(matches!(budget.share(10, || budget.spend(99_999)), Ok(Some(()))));
        assert_eq!(spent(&budget), 1_000_000 - 100_000 - 99_999 - 1);
        assert!(budget.share(10, endless).is_err());
    }

    #[test]
    fn time_and_cancellation_end_it_soon() {
        let late = Budget::new((1_000_000, Duration::ZERO), Arc::default());
        assert!(spent(&late) <= LOOK && late.is_over());
        let cancelled = Arc::new(AtomicBool::new(false));
        let budget = Budget::new((1_000_000, Duration::from_secs(600)), cancelled.clone());
        assert!(budget.spend(10 * LOOK as usize).is_ok() && !budget.is_over());
        cancelled.store(true, Relaxed);
        assert!(spent(&budget) <= LOOK);
    }
}
