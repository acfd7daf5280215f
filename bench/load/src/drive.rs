//! When requests are sent.

use crate::answer::Answer;
use crate::plan::{Arrivals, Body, Plan, Target};
use crate::wire::Client;
use rustix::time::{ClockId, clock_gettime};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// What a plan gave.
#[derive(Debug)]
pub struct Measured {
    /// In the order of the requests.
    pub answers: Vec<Answer>,
    /// From the first request to the last answer.
    pub wall: Duration,
    /// CPU time of this process meanwhile.
    pub cpu: Duration,
    /// Connections that were made.
    pub opened: u64,
}

/// What all requests share.
struct Load {
    plan: Plan,
    client: Client,
    bodies: Vec<Body>,
    next: Cell<usize>,
    answers: RefCell<Vec<Answer>>,
}

impl Load {
    async fn ask(&self, number: usize, begun: Instant) {
        let body = &self.bodies[number % self.bodies.len()];
        let answer = self.client.ask(&self.plan, number, body, begun).await;
        self.answers.borrow_mut().push(answer);
    }

    /// One client of a closed loop.
    async fn client(self: Rc<Load>) {
        while self.next.get() < self.plan.requests {
            let number = self.next.replace(self.next.get() + 1);
            self.ask(number, Instant::now()).await;
        }
    }
}

/// Sends all requests of a plan and waits for their answers.
pub async fn drive(plan: &Plan, target: Target, bodies: Vec<Body>) -> Measured {
    let client = Client::new(plan, target);
    let (next, answers) = (Cell::default(), RefCell::default());
    let load = Rc::new(Load { plan: plan.clone(), client, bodies, next, answers });
    let (begun, cpu) = (Instant::now(), cpu_time());
    let tasks = LocalSet::new();
    tasks.run_until(send(&load)).await;
    let (wall, cpu) = (begun.elapsed(), cpu_time().saturating_sub(cpu));
    let mut answers = load.answers.take();
    answers.sort_by_key(|answer| answer.request);
    // Parsed after the clock has stopped.
    for answer in &mut answers {
        answer.check(&load.bodies[answer.request % load.bodies.len()]);
    }
    Measured { answers, wall, cpu, opened: load.client.opened.get() }
}

async fn send(load: &Rc<Load>) {
    let mut tasks = Vec::new();
    match load.plan.arrivals {
        Arrivals::Clients(clients) => {
            tasks.extend((0..clients).map(|_| tokio::task::spawn_local(load.clone().client())));
        }
        Arrivals::Poisson { rate, seed } => {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut due = Instant::now();
            for number in 0..load.plan.requests {
                tokio::time::sleep_until(due.into()).await;
                let load = load.clone();
                // Times count from when it was due: a late client must not make a server look quick.
                tasks.push(tokio::task::spawn_local(async move { load.ask(number, due).await }));
                due += Duration::from_secs_f64(-(1.0 - rng.f64()).ln() / rate);
            }
        }
    }
    for task in tasks {
        if let Err(error) = task.await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
