//! Runs a model to its end, or until its broken twin is caught.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

/// A model that can say whether anything can still happen.
pub(crate) trait Scoped: Model {
    /// Whether something changes the world.
    fn can_move(&self, world: &Self::State) -> bool {
        let mut actions = Vec::new();
        self.actions(world, &mut actions);
        actions.into_iter().any(|action| self.next_state(world, action).is_some())
    }
}

impl<M: Model> Scoped for M {}

/// Begins to measure how long a search takes.
#[expect(clippy::disallowed_methods, reason = "how long a search takes is a matter of real time")]
pub(crate) fn stopwatch() -> Instant {
    Instant::now()
}

/// What a search has seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Searched {
    pub(crate) states: usize,
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
}

/// Every state that can be reached: each property holds, and everything that should happen does.
pub(crate) fn holds<M>(model: M, threads: usize) -> Searched
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let begun = stopwatch();
    let checker =
        model.checker().finish_when(HasDiscoveries::AnyFailures).threads(threads).spawn_bfs().join();
    checker.assert_properties();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    Searched { states, depth, seconds: begun.elapsed().as_secs_f64() }
}

/// The broken twin breaks this property.
pub(crate) fn breaks<M>(twin: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let caught = HasDiscoveries::AnyOf([property].into());
    let checker = twin.checker().finish_when(caught).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "the twin does not break {property:?}");
}
