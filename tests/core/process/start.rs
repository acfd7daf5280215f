//! Engines that cannot be opened.

use super::watch::until_phase;
use super::{a_child, a_thread, fake, open_with, quick};
use llgtrt::config::Config;
use llgtrt::error::Error;
use llgtrt::handle::{Handle, Phase};
use llgtrt::process::Transport;
use llgtrt::vocab::Vocab;

fn failure(target: &str, transport: Transport) -> String {
    let handle = open_with(target, &Config::default(), transport);
    let why = until_phase(&handle, Phase::Failed);
    assert!(!why.contains('\n'), "{why}");
    let error = handle.submit(fake::ask(fake::Does::Stream, 1, 1)).unwrap_err();
    assert!(matches!(&error, Error::Closed(said) if said.contains(&why)), "{error}");
    assert_eq!(handle.metrics().restarts, 0);
    why
}

#[test]
fn a_target_that_is_refused_fails_in_its_own_words() {
    assert_eq!(failure("refuse", a_thread()), "target: holds no model");
    assert_eq!(failure("refuse", a_child()), "target: holds no model");
}

#[test]
fn a_target_that_kills_the_child_is_one_clear_line() {
    let why = failure("abort", a_child());
    assert!(why.contains("SIGABRT") && why.contains("opened abort") && why.contains("damaged"), "{why}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let why = failure("fake", Transport::Child(vec!["/no/such/program".into()]));
    assert!(why.contains("/no/such/program"), "{why}");
    assert!(failure("fake", Transport::Child(vec![])).contains("empty"));
}

#[test]
fn a_program_that_is_no_engine_process_fails() {
    assert!(failure("fake", Transport::Child(vec!["/bin/false".into()])).contains("code 1"));
    assert!(failure("fake", Transport::Child(vec!["/bin/echo".into()])).contains("code 0"));
}

#[test]
fn a_tokenizer_that_cannot_be_opened_fails() {
    for transport in [a_thread(), a_child()] {
        let vocab = |_: &str| Err::<std::sync::Arc<Vocab>, _>(Error::invalid("target", "no words"));
        let handle = Handle::with_backoff("fake", &Config::default(), transport, vocab, quick()).unwrap();
        assert_eq!(until_phase(&handle, Phase::Failed), "target: no words");
    }
}
