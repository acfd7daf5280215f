//! Any [`Drafter`] on a thread of its own, as a draft model on other devices is.

use super::{Whims, Works, locked, ring};
use llgtrt::exec::cost::Work;
use llgtrt::exec::{Ask, Collected, Drafter, JobId, Order, Remote, Round, Wake};
use llgtrt::types::{Slot, Token};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the thread is told.
enum Told {
    Order(Vec<Order>),
    Cancel(JobId),
}

/// A drafter that answers later.
pub struct LaterDrafts {
    drafter: Arc<Mutex<Box<dyn Drafter>>>,
    orders: Option<Sender<Told>>,
    done: Receiver<Collected>,
    wake: Arc<Mutex<Option<Wake>>>,
    thread: Option<JoinHandle<()>>,
}

impl LaterDrafts {
    /// Puts a drafter on a thread; `seed` of its whims.
    pub fn new(drafter: Box<dyn Drafter>, seed: u64) -> Self {
        let drafter = Arc::new(Mutex::new(drafter));
        let wake: Arc<Mutex<Option<Wake>>> = Arc::default();
        let (orders, inbox) = channel();
        let (tell, done) = channel();
        let mut worker = Worker {
            drafter: Arc::clone(&drafter),
            tell,
            wake: Arc::clone(&wake),
            whims: Whims(seed.max(1)),
            waiting: Vec::new(),
        };
        let thread = Some(std::thread::spawn(move || worker.run(&inbox)));
        LaterDrafts { drafter, orders: Some(orders), done, wake, thread }
    }

    fn tell(&self, told: Told) {
        // The thread lives as long as the sender.
        let _ = self.orders.as_ref().map(|orders| orders.send(told));
    }
}

impl Drafter for LaterDrafts {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        locked(&self.drafter).propose(asks);
    }

    fn remote(&mut self) -> Option<&mut dyn Remote> {
        Some(self)
    }

    fn keep(&mut self, slot: Slot, len: u32) {
        locked(&self.drafter).keep(slot, len);
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) {
        locked(&self.drafter).copy(from, to, len);
    }

    fn delay(&self, slot: Slot, known: &[Token]) -> Option<f64> {
        locked(&self.drafter).delay(slot, known)
    }

    fn reach(&self) -> u32 {
        locked(&self.drafter).reach()
    }

    fn observe(&mut self, round: &Round) {
        locked(&self.drafter).observe(round);
    }

    fn held(&self) -> u64 {
        locked(&self.drafter).held()
    }

    fn failed(&self) -> bool {
        locked(&self.drafter).failed()
    }
}

impl Remote for LaterDrafts {
    fn order(&mut self, orders: Vec<Order>) {
        self.tell(Told::Order(orders));
    }

    fn collect(&mut self) -> Collected {
        let mut all = Collected::default();
        for Collected { orders, passes } in self.done.try_iter() {
            all.orders.extend(orders);
            all.passes.extend(passes);
        }
        all
    }

    fn cancel(&mut self, job: JobId) {
        self.tell(Told::Cancel(job));
    }

    fn wake_by(&mut self, wake: Wake) {
        *locked(&self.wake) = Some(wake);
    }
}

impl Drop for LaterDrafts {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Worker {
    drafter: Arc<Mutex<Box<dyn Drafter>>>,
    tell: Sender<Collected>,
    wake: Arc<Mutex<Option<Wake>>>,
    whims: Whims,
    waiting: Vec<Order>,
}

impl Works<Told> for Worker {
    fn whims(&mut self) -> &mut Whims {
        &mut self.whims
    }

    fn has_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn obey(&mut self, told: Told) {
        match told {
            Told::Order(orders) => self.waiting.extend(orders),
            Told::Cancel(job) => {
                if let Some(index) = self.waiting.iter().position(|order| order.job.id == job) {
                    let order = self.waiting.swap_remove(index);
                    self.say(vec![order], Vec::new());
                }
            }
        }
    }

    /// Drafts for some that wait, in any order.
    fn work(&mut self) {
        let count = 1 + self.whims.below(self.waiting.len());
        let mut orders: Vec<Order> = Vec::new();
        for _ in 0..count {
            let index = self.whims.below(self.waiting.len());
            orders.push(self.waiting.swap_remove(index));
        }
        let mut asks: Vec<Ask<'_>> = orders.iter_mut().map(Order::ask).collect();
        let begin = Instant::now();
        let caught_up = {
            let mut drafter = locked(&self.drafter);
            drafter.propose(&mut asks);
            drafter.caught_up()
        };
        let took = begin.elapsed().saturating_sub(caught_up);
        let pass = Ask::work(&asks).map(|work| (work, took));
        let late: Vec<bool> = asks.iter().map(|ask| ask.late).collect();
        orders.iter_mut().zip(late).for_each(|(order, late)| order.late = late);
        self.say(Vec::new(), pass.into_iter().collect());
        while !orders.is_empty() {
            let index = self.whims.below(orders.len());
            self.say(vec![orders.swap_remove(index)], Vec::new());
            self.whims.pause();
        }
    }
}

impl Worker {
    fn say(&self, orders: Vec<Order>, passes: Vec<(Work, Duration)>) {
        // A drafter that is gone hears nothing.
        let _ = self.tell.send(Collected { orders, passes });
        ring(&self.wake);
    }
}
