//! Every call of every scenario fails once, in every way, on the memory store.

use goldseam_sim::nth::{Backend, FAULTS, every_call};
use goldseam_sim::scenario::find;

fn all(name: &str) {
    let scenario = find(name).unwrap();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for fault in FAULTS {
        let cases = runtime.block_on(every_call(Backend::Memory, scenario, fault)).unwrap();
        assert!(cases > 5, "{name} made only {cases} calls");
        println!("nth: {name} {fault:?} {cases}");
    }
}

macro_rules! scenarios {
    ($($name:ident),+) => {
        $(#[test] fn $name() { all(stringify!($name)); })+
    };
}

scenarios!(
    saga,
    signal,
    sleep,
    child,
    jump,
    continue_as_new,
    parallel,
    question,
    cancel,
    once,
    remote,
    operation,
    timeout
);
