//! What the second process costs a step: `cargo run --release --features python,llama --example process_cost [steps]`.
//!
//! A fake engine reports 16 events a step, to a thread of this process and to a child of this program. Printed per step
//! are the time that the engine's own thread spends on reporting, the time until the report is merged and its reader
//! is awake, and the CPU time of all processes together.

use crossbeam_channel::Receiver;
use llgtrt::config::Config;
use llgtrt::engine::{Command, FromEngine, Report};
use llgtrt::exec::Promise;
use llgtrt::handle::{Handle, Phase};
use llgtrt::process::{Transport, child_main};
use llgtrt::request::{Limits, RequestSpec};
use llgtrt::types::{End, Event, FinishReason, RequestId, Usage};
use llgtrt::vocab::Vocab;
use rustix::event::{PollFd, PollFlags, poll};
use std::time::{Duration, Instant, SystemTime};

const STREAMS: u32 = 16;

/// Requests: prompt [pause between steps in microseconds], `max_tokens` steps, 16 choices. The first token of choice 0
/// is the time of the report, the last event's tokens are the engine thread's nanoseconds per step.
fn serve(_: &str, _: &Config, inbox: Receiver<Command>, sink: &mut dyn FnMut(FromEngine) -> bool) {
    let info = llgtrt::exec::Info {
        limits: Limits {
            n_vocab: u32::MAX,
            context: u32::MAX,
            max_prompt: 2,
            default_output: u32::MAX,
            faults: false,
            lacks: Default::default(),
        },
        max_running: STREAMS,
        threads: 1,
        kv_tokens: 0,
        plan: None,
        promise: Promise::BitIdentical,
        summary: String::new(),
        weights: 0,
        eog: Vec::new(),
        bos: None,
        begin: None,
        chat_template: None,
        tool_use_template: None,
        rag_template: None,
    };
    sink(FromEngine::Ready(Box::new(info)));
    while let Ok(Command::Submit(id, request)) = inbox.recv() {
        let pause = Duration::from_micros(request.spec().prompt[0].into());
        let mut spent = Duration::ZERO;
        for _ in 0..request.max_tokens() {
            std::thread::sleep(pause);
            let begin = Instant::now();
            let events = (0..STREAMS).map(|choice| event(id, choice, vec![now()], None)).collect();
            sink(FromEngine::Report(Report { events, ..Report::default() }));
            spent += begin.elapsed();
        }
        let per_step = (spent / request.max_tokens()).subsec_nanos();
        let end = Some(End::Finished(FinishReason::Length));
        let events = (0..STREAMS).map(|choice| event(id, choice, vec![per_step], end.clone())).collect();
        sink(FromEngine::Report(Report { events, ..Report::default() }));
    }
}

fn event(request: RequestId, choice: u32, tokens: Vec<u32>, end: Option<End>) -> Event {
    Event { text: " word".into(), tokens, end, ..Event::silent(request, choice, Usage::default()) }
}

/// The wall clock's nanoseconds, without those above 4 s: it is the same in both processes.
fn now() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (since.map_or(0, |since| since.as_nanos()) & 0xffff_ffff) as u32
}

/// Microseconds per step.
struct Cost {
    engine: f64,
    latency: [f64; 2],
    cpu: f64,
}

fn measure(handle: &Handle, pause: u32, steps: u32) -> Result<Cost, Box<dyn std::error::Error>> {
    let json = format!(r#"{{"prompt": [{pause}], "n": {STREAMS}, "max_tokens": {steps}}}"#);
    let cpu = cpu_time()?;
    handle.submit(serde_json::from_str::<RequestSpec>(&json)?)?;
    let mut latencies = Vec::new();
    loop {
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], None)?;
        let now = now();
        for event in handle.drain() {
            let last = event.tokens.last().copied().unwrap_or(0);
            if event.end.is_some() {
                latencies.sort_by(f64::total_cmp);
                let at = |share: f64| {
                    latencies.get((latencies.len() as f64 * share) as usize).copied().unwrap_or(0.0)
                };
                let latency = [at(0.5), at(0.99)];
                let cpu = (cpu_time()? - cpu) * 1e6 / f64::from(steps);
                return Ok(Cost { engine: f64::from(last) / 1e3, latency, cpu });
            }
            if event.choice == 0 {
                latencies.push(f64::from(now.wrapping_sub(last)) / 1e3);
            }
        }
    }
}

/// CPU seconds of this process and its children so far, from /proc: children that run do not count in getrusage.
fn cpu_time() -> Result<f64, Box<dyn std::error::Error>> {
    let mut ns = 0.0;
    for process in std::fs::read_dir("/proc")? {
        let dir = process?.path();
        let Ok(stat) = std::fs::read_to_string(dir.join("stat")) else { continue };
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let own = std::process::id().to_string();
        if dir.ends_with(&own) || rest.split(' ').nth(1) == Some(own.as_str()) {
            for thread in std::fs::read_dir(dir.join("task"))? {
                let sched = std::fs::read_to_string(thread?.path().join("schedstat"))?;
                ns += sched.split(' ').next().unwrap_or("0").parse::<f64>()?;
            }
        }
    }
    Ok(ns / 1e9)
}

fn run(name: &str, transport: Transport, steps: u32) -> Result<(), Box<dyn std::error::Error>> {
    let handle = Handle::new("fake", &Config::default(), transport, |_| Vocab::toy())?;
    while handle.state().0 == Phase::Loading {
        std::thread::sleep(Duration::from_millis(1));
    }
    for pause in [0, 1000] {
        let cost = measure(&handle, pause, steps)?;
        println!(
            "{name:8} {pause:5} us between steps: engine thread {:6.1} us/step, delivery p50 {:6.1} us p99 {:7.1} us, CPU {:6.1} us/step",
            cost.engine, cost.latency[0], cost.latency[1], cost.cpu
        );
    }
    handle.close();
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, child, fd] = &*args
        && child == "child"
    {
        std::process::exit(child_main(fd.parse()?, serve));
    }
    let steps = args.get(1).map_or(Ok(5000), |steps| steps.parse())?;
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    run("thread", Transport::Thread(serve), steps)?;
    run("process", Transport::Child(vec![program, "child".into()]), steps)
}
