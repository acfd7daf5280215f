//! Any [`Target`] on a thread of its own, which answers when it likes.
//!
//! It stands in for engines that sample by themselves and call back from threads of theirs. What was started is taken up in
//! any order and in any company, after a random delay; outcomes come one by one, in any order; a job that was cancelled in
//! time is given up without being computed. What the answers are is the same in every order, since an engine's rows do not
//! depend on what shares the pass.

mod drafts;

pub use drafts::LaterDrafts;
use llgtrt::error::Error;
use llgtrt::exec::{Caps, ExecError, Job, JobId, News, Outcome, SeqError, Target, Wake};
use llgtrt::types::Slot;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest delay before a pass, and between two outcomes of it, in microseconds.
const LONGEST: usize = 200;

/// What the thread is told.
enum Order {
    Start(Vec<Job>),
    Cancel(JobId),
    /// Forget everything; the answer says that it is done.
    Reset(Sender<()>),
}

type Told = Result<News, ExecError>;

/// A target that answers later.
pub struct Later {
    caps: Caps,
    target: Arc<Mutex<Box<dyn Target>>>,
    orders: Option<Sender<Order>>,
    news: Receiver<Told>,
    wake: Arc<Mutex<Option<Wake>>>,
    thread: Option<JoinHandle<()>>,
}

impl Later {
    /// Puts a target on a thread; `seed` of its whims.
    pub fn new(target: Box<dyn Target>, seed: u64) -> Self {
        let caps = target.caps().clone();
        let target = Arc::new(Mutex::new(target));
        let wake: Arc<Mutex<Option<Wake>>> = Arc::default();
        let (orders, inbox) = channel();
        let (tell, news) = channel();
        let mut worker = Worker {
            target: Arc::clone(&target),
            tell,
            wake: Arc::clone(&wake),
            whims: Whims(seed.max(1)),
            most: caps.max_step_tokens,
            waiting: Vec::new(),
        };
        let thread = Some(std::thread::spawn(move || worker.run(&inbox)));
        Later { caps, target, orders: Some(orders), news, wake, thread }
    }

    /// Waits for the end of a pass where there is one: it has no job of an idle slot.
    fn target(&self) -> MutexGuard<'_, Box<dyn Target>> {
        locked(&self.target)
    }

    fn order(&self, order: Order) -> Result<(), ExecError> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent { Ok(()) } else { Err(ExecError("the engine's thread has ended".into())) }
    }
}

/// The lock of what a panic in the other thread cannot have left half done: that is reported as the executor's failure.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Target for Later {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn start(&mut self, jobs: Vec<Job>) -> Result<(), ExecError> {
        self.order(Order::Start(jobs))
    }

    fn poll(&mut self) -> Result<News, ExecError> {
        let mut all = News::default();
        for told in self.news.try_iter() {
            let News { done, passes } = told?;
            all.done.extend(done);
            all.passes.extend(passes);
        }
        Ok(all)
    }

    fn wake_by(&mut self, wake: Wake) {
        *locked(&self.wake) = Some(wake);
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        self.target().copy(from, to, len)
    }

    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        self.target().truncate(slot, keep)
    }

    fn floor(&self, slot: Slot) -> u32 {
        self.target().floor(slot)
    }

    fn save(&mut self, slot: Slot) -> Option<Vec<u8>> {
        self.target().save(slot)
    }

    fn restore(&mut self, slot: Slot, kv: &[u8]) -> bool {
        self.target().restore(slot, kv)
    }

    fn cancel(&mut self, job: JobId) {
        // Where the thread has ended, `start` and `poll` say so.
        let _ = self.order(Order::Cancel(job));
    }

    fn release(&mut self, slot: Slot) -> Result<(), ExecError> {
        self.target().release(slot)
    }

    fn reset(&mut self) -> Result<(), ExecError> {
        let (done, heard) = channel();
        self.order(Order::Reset(done))?;
        heard.recv().map_err(|e| ExecError(e.to_string()))?;
        self.news.try_iter().for_each(drop);
        self.target().reset()
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.orders = None;
        // What went wrong in it was told before.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A thread that is given orders of type `O`.
trait Works<O> {
    fn whims(&mut self) -> &mut Whims;
    /// Whether anything waits.
    fn has_work(&self) -> bool;
    fn obey(&mut self, order: O);
    /// Does some of what waits.
    fn work(&mut self);

    /// Works until nobody gives orders any more.
    fn run(&mut self, inbox: &Receiver<O>) {
        loop {
            if !self.has_work() {
                match inbox.recv() {
                    Ok(order) => self.obey(order),
                    Err(_) => return,
                }
            }
            self.whims().pause();
            for order in inbox.try_iter() {
                self.obey(order);
            }
            if self.has_work() {
                self.work();
            }
        }
    }
}

struct Worker {
    target: Arc<Mutex<Box<dyn Target>>>,
    tell: Sender<Told>,
    wake: Arc<Mutex<Option<Wake>>>,
    whims: Whims,
    /// Tokens of a pass.
    most: u32,
    waiting: Vec<Job>,
}

impl Works<Order> for Worker {
    fn whims(&mut self) -> &mut Whims {
        &mut self.whims
    }

    fn has_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Start(jobs) => self.waiting.extend(jobs),
            Order::Cancel(job) => self.give_up(job),
            Order::Reset(done) => {
                self.waiting.clear();
                // Who asked waits for it.
                let _ = done.send(());
            }
        }
    }

    /// Computes some of the waiting jobs in one pass.
    fn work(&mut self) {
        let (mut jobs, mut tokens) = (Vec::new(), 0);
        let wanted = 1 + self.whims.below(self.waiting.len());
        while jobs.len() < wanted && !self.waiting.is_empty() {
            let index = self.whims.below(self.waiting.len());
            let job = &self.waiting[index];
            tokens += (job.tokens.len() + job.draft.tokens.len()) as u32;
            if tokens > self.most && !jobs.is_empty() {
                break;
            }
            jobs.push(self.waiting.swap_remove(index));
        }
        let target = Arc::clone(&self.target);
        let computed = catch_unwind(AssertUnwindSafe(|| {
            let mut target = locked(&target);
            target.start(jobs)?;
            target.poll()
        }));
        match computed {
            Ok(Ok(news)) => self.say_in_any_order(news),
            Ok(Err(error)) => self.say(Err(error)),
            Err(panic) => {
                let why = panic.downcast_ref::<&str>().copied().unwrap_or("a panic");
                self.say(Err(ExecError(why.to_owned())));
            }
        }
    }
}

impl Worker {
    /// Answers for a job that has not been taken up yet.
    fn give_up(&mut self, id: JobId) {
        let Some(index) = self.waiting.iter().position(|job| job.id == id) else { return };
        self.waiting.swap_remove(index);
        let outcome: Outcome = Err(SeqError(Error::Closed("the job was given up".into())));
        self.say(Ok(News { done: vec![(id, outcome)], passes: Vec::new() }));
    }

    fn say_in_any_order(&mut self, News { mut done, passes }: News) {
        self.say(Ok(News { done: Vec::new(), passes }));
        while !done.is_empty() {
            let index = self.whims.below(done.len());
            self.say(Ok(News { done: vec![done.swap_remove(index)], passes: Vec::new() }));
            self.whims.pause();
        }
    }

    fn say(&self, told: Told) {
        // An engine that is gone hears nothing.
        let _ = self.tell.send(told);
        ring(&self.wake);
    }
}

/// Calls who waits for news.
fn ring(wake: &Mutex<Option<Wake>>) {
    if let Some(wake) = &*locked(wake) {
        wake();
    }
}

/// Numbers by Marsaglia's xorshift; the state is not 0.
struct Whims(u64);

impl Whims {
    /// A number below `n`, which is above 0.
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn pause(&mut self) {
        std::thread::sleep(Duration::from_micros(self.below(LONGEST) as u64));
    }
}
