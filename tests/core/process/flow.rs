//! Requests from submission to their end, over both transports.

use super::fake::{Does, RUNNING, ask};
use super::watch::{Watch, is_readable, until, until_phase, until_ready};
use super::{a_child, a_thread, open, open_with};
use llgtrt::config::Config;
use llgtrt::error::Error;
use llgtrt::handle::{Handle, Phase};
use llgtrt::request::RequestSpec;
use llgtrt::types::{End, FinishReason, RequestId};

fn on_both(test: impl Fn(Handle)) {
    for transport in [a_thread(), a_child()] {
        let handle = open(transport);
        test(handle.clone());
        handle.close();
    }
}

#[test]
fn every_choice_streams_to_its_end() {
    on_both(|handle| {
        let requests = [2, 3, 1].map(|n| handle.submit(ask(Does::Stream, n, 7)).unwrap());
        let mut watch = Watch::default();
        for (id, n) in requests.iter().zip([2, 3, 1]) {
            watch.until_ended(&handle, &[*id], n);
            assert!((0..n).all(|choice| watch.text(*id, choice) == "aaaaaaa"));
        }
        assert_eq!(watch.0.len(), 6);
        assert!(requests[0] < requests[1] && requests[1] < requests[2]);
    });
}

#[test]
fn what_waits_to_be_drained_is_one_event_per_choice() {
    on_both(|handle| {
        let request = handle.submit(ask(Does::Stream, 2, 300)).unwrap();
        until("300 steps are reported", || handle.metrics().snapshot.totals.steps >= 300);
        let events = handle.drain();
        let seen: Vec<_> =
            events.iter().map(|e| (e.request, e.choice, e.text.len(), e.tokens.len())).collect();
        assert_eq!(seen, [(request, 0, 300, 300), (request, 1, 300, 300)]);
        let tokens: Vec<u32> = (0..300).rev().collect();
        assert!(
            events.iter().all(|e| e.tokens == tokens && e.end == Some(End::Finished(FinishReason::Length)))
        );
    });
}

#[test]
fn the_descriptor_is_readable_while_there_is_news() {
    on_both(|handle| {
        handle.drain();
        assert!(!is_readable(&handle));
        handle.submit(ask(Does::Stream, 1, 1)).unwrap();
        until("there is news", || is_readable(&handle));
        assert_eq!(handle.drain().len(), 1);
        assert!(!is_readable(&handle));
        handle.close();
        assert!(is_readable(&handle), "the phase has changed");
        assert!(handle.drain().is_empty());
    });
}

#[test]
fn a_cancelled_request_ends_wherever_it_is() {
    on_both(|handle| {
        let running = handle.submit(ask(Does::Stream, RUNNING as u32, 1_000_000)).unwrap();
        let waiting = handle.submit(ask(Does::Stream, 2, 1_000_000)).unwrap();
        let mut watch = Watch::default();
        watch.until_speaking(&handle, &[running]);
        for (id, n) in [(waiting, 2), (running, RUNNING as u32)] {
            handle.cancel(id);
            watch.until_ended(&handle, &[id], n);
            let cancelled = End::Finished(FinishReason::Cancelled);
            assert!((0..n).all(|choice| watch.end(id, choice) == Some(&cancelled)));
        }
        handle.cancel(running);
        handle.cancel(RequestId(999));
        let next = handle.submit(ask(Does::Stream, 1, 3)).unwrap();
        watch.until_ended(&handle, &[next], 1);
        assert_eq!(watch.text(next, 0), "aaa");
    });
}

#[test]
fn an_invalid_request_is_refused_at_once() {
    on_both(|handle| {
        let error = handle.submit(ask(Does::Stream, 1, 0)).unwrap_err();
        assert!(matches!(&error, Error::Invalid { what, .. } if what == "max_tokens"), "{error}");
    });
}

#[test]
fn a_client_that_fills_the_queue_shuts_out_itself_alone() {
    let config = Config { max_queue_size: 6, ..Config::default() };
    let handle = open_with("fake", &config, a_thread());
    until_ready(&handle);
    let from = |client| RequestSpec { client, ..ask(Does::Stream, 1, 1_000_000) };
    let accepted = |client| (0..100).take_while(|_| handle.submit(from(client)).is_ok()).count();
    // All of it, a half, a third: what is waiting stays bounded by the number of keys.
    assert_eq!([1, 2, 1, 3, 2].map(accepted), [RUNNING + 6, 3, 0, 2, 0]);
}

#[test]
fn more_waiting_choices_than_the_bound_are_refused() {
    let config = Config { max_queue_size: 3, ..Config::default() };
    for transport in [a_thread(), a_child()] {
        let handle = open_with("fake", &config, transport);
        until_ready(&handle);
        let mut accepted = vec![];
        for _ in 0..RUNNING + 3 {
            accepted.push(handle.submit(ask(Does::Stream, 1, 1_000_000)).unwrap());
        }
        let error = handle.submit(ask(Does::Stream, 1, 1)).unwrap_err();
        assert!(matches!(error, Error::Overloaded(_)), "{error}");
        handle.cancel(accepted[0]);
        Watch::default().until_ended(&handle, &accepted[..1], 1);
        handle.submit(ask(Does::Stream, 1, 1)).unwrap();
    }
    let handle = open_with("fake", &Config { max_queue_size: 0, ..Config::default() }, a_thread());
    until_ready(&handle);
    for _ in 0..2_000 {
        handle.submit(ask(Does::Stream, 1, 1_000_000)).unwrap();
    }
}

#[test]
fn the_tokenizer_and_the_facts_are_there_once_it_is_ready() {
    let handle = open_with("slow", &Config::default(), a_child());
    assert_eq!(handle.state().0, Phase::Loading);
    assert!(matches!(handle.info(), Err(Error::Closed(_))));
    assert!(matches!(handle.encode(&[("a", false)]), Err(Error::Closed(_))));
    assert!(matches!(handle.submit(ask(Does::Stream, 1, 1)), Err(Error::Closed(_))));
    on_both(|handle| {
        assert_eq!(handle.info().unwrap().max_running, RUNNING as u32);
        let tokens = handle.encode(&[("naïve ", false), ("the", false)]).unwrap();
        assert_eq!(handle.decode(&tokens).unwrap(), "naïve the");
        let special = handle.vocab().unwrap().eog()[0];
        assert_eq!(handle.decode(&[b'a'.into(), 0xff, special, 9999, b'b'.into()]).unwrap(), "a\u{fffd}b");
    });
}

/// Nobody drains while the engine makes events as fast as it can: it goes on, and what waits is one event a choice.
#[test]
fn an_engine_is_not_held_up_by_who_does_not_drain() {
    let mut config = Config::default();
    config.engine.max_step_ms = 0;
    for transport in [a_thread(), a_child()] {
        let handle = open_with("fake", &config, transport);
        until_phase(&handle, Phase::Ready);
        handle.submit(ask(Does::Stream, RUNNING as u32, 5_000)).unwrap();
        until("5,000 steps are reported", || handle.metrics().snapshot.totals.steps >= 5_000);
        let events = handle.drain();
        assert_eq!(events.len(), RUNNING);
        assert!(events.iter().all(|e| e.tokens.len() == 5_000));
    }
}

#[test]
fn a_handle_that_is_dropped_closes_its_engine() {
    let handle = open(a_child());
    let pid = until_ready(&handle);
    let clone = handle.clone();
    drop(handle);
    assert_eq!(clone.state().0, Phase::Ready);
    drop(clone);
    until("the child is gone", || !super::isolated::is_alive(pid));
}

/// The descriptor that a child inherits is open to no other child.
#[test]
fn children_share_nothing() {
    let both = [open(a_child()), open(a_child())];
    let sockets = both.each_ref().map(|handle| {
        let dir = std::fs::read_dir(format!("/proc/{}/fd", until_ready(handle))).unwrap();
        let links = dir.filter_map(|e| std::fs::read_link(e.unwrap().path()).ok());
        let mut sockets: Vec<_> = links
            .filter_map(|l| l.to_str().filter(|l| l.starts_with("socket:")).map(str::to_owned))
            .collect();
        sockets.sort();
        sockets.dedup();
        sockets
    });
    let own =
        sockets.iter().map(|of_child| of_child.iter().filter(|s| !sockets_of_parent().contains(s)).count());
    assert_eq!(own.collect::<Vec<_>>(), [1, 1], "{sockets:?}");
    assert_ne!(sockets[0], sockets[1]);
}

/// The sockets among this process's standard streams, which its children have too.
fn sockets_of_parent() -> Vec<String> {
    let links = (0..3).filter_map(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok());
    links.filter_map(|l| l.to_str().map(str::to_owned)).collect()
}
