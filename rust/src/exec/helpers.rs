//! Threads for what the engine's thread hands out: verdicts, drafts without a model, draws of drafts, and masks beside a pass.
//!
//! Whoever is free takes the next piece: cores are not equally fast, nor are pieces. What comes of a piece depends on it
//! alone, so it is the same whoever computes it.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers that a thread is woken for, which takes about as long as to draw from so many.
const WORTH: usize = 128 << 10;

/// The engine's own thread, and others that sleep until there is enough to do.
#[derive(Debug)]
pub struct Helpers(Option<ThreadPool>);

impl Helpers {
    /// So many threads, the caller's among them.
    pub fn new(threads: usize) -> Arc<Self> {
        let others = threads.saturating_sub(1);
        let pool = ThreadPoolBuilder::new().num_threads(others).thread_name(|i| format!("engine {i}"));
        Arc::new(Helpers(if others > 0 { pool.build().ok() } else { None }))
    }

    /// Does `work` on all items, which look at so many `numbers` together. Each thread has an element of `own`.
    pub(super) fn each<T, S: Send + Default>(
        &self,
        numbers: usize,
        items: impl ExactSizeIterator<Item = T> + Send,
        own: &mut Vec<S>,
        work: impl Fn(T, &mut S) + Sync,
    ) {
        let most = 1 + self.0.as_ref().map_or(0, ThreadPool::current_num_threads);
        let threads = (numbers / WORTH).min(items.len()).clamp(1, most);
        own.resize_with(own.len().max(threads), S::default);
        let next = taken(items);
        let work = |own: &mut S| std::iter::from_fn(&next).for_each(|item| work(item, own));
        let (first, others) = own[..threads].split_first_mut().expect("one for the caller. This is a bug.");
        self.beside(threads - 1, others.iter_mut(), work, || work(first));
    }

    /// Calls `compute`, and meanwhile does `work` on all items on up to so many other threads.
    pub(super) fn beside<T: Send, R>(
        &self,
        threads: usize,
        items: impl Iterator<Item = T> + Send,
        work: impl Fn(T) + Sync,
        compute: impl FnOnce() -> R,
    ) -> R {
        let next = taken(items);
        let Some(pool) = self.0.as_ref().filter(|_| threads > 0) else { return compute() };
        pool.in_place_scope(|scope| {
            for _ in 0..threads.min(pool.current_num_threads()) {
                scope.spawn(|_| std::iter::from_fn(&next).for_each(&work));
            }
            compute()
        })
    }
}

/// Hands out the items, one at a time, to whichever thread asks.
fn taken<T>(items: impl Iterator<Item = T> + Send) -> impl Fn() -> Option<T> + Sync {
    let items = Mutex::new(items);
    move || items.lock().unwrap_or_else(PoisonError::into_inner).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_on_any_number_of_threads() {
        for threads in [0, 1, 2, 5] {
            let helpers = Helpers::new(threads);
            let mut done = vec![0; 200];
            let mut own: Vec<u32> = Vec::new();
            helpers.each(WORTH * 9, done.iter_mut(), &mut own, |item, own| {
                (*item, *own) = (*item + 1, *own + 1)
            });
            assert!(done.iter().all(|item| *item == 1) && own.iter().sum::<u32>() == 200);
            helpers.each(0, done.iter_mut(), &mut own, |item, _| *item += 1);
            helpers.each(WORTH * 3, done[..1].iter_mut(), &mut own, |item, _| *item += 1);
            let came = helpers.beside(2, done.iter_mut(), |item| *item -= 1, || 7);
            let left = if threads > 1 { 201 } else { 401 };
            assert_eq!((came, done.iter().sum::<i32>()), (7, left));
        }
    }
}
