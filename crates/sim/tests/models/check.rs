//! Searches a model completely, or until its broken twin is caught.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

/// A model that knows whether any action is possible.
pub(crate) trait Scoped: Model {
    /// Returns whether any action changes the world.
    fn can_move(&self, world: &Self::State) -> bool {
        let mut actions = Vec::new();
        self.actions(world, &mut actions);
        actions.into_iter().any(|action| self.next_state(world, action).is_some())
    }
}

impl<M: Model> Scoped for M {}

/// Starts to measure the duration of a search.
#[expect(clippy::disallowed_methods, reason = "the duration of a search is measured in real time")]
pub(crate) fn stopwatch() -> Instant {
    Instant::now()
}

/// The size and duration of a search.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Searched {
    pub(crate) states: usize,
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
}

/// Searches all reachable states: asserts that each property holds, and that each expected situation occurs.
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
    Searched {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        seconds: begun.elapsed().as_secs_f64(),
    }
}

/// Asserts that the broken twin violates this property.
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
