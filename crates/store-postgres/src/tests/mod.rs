//! Behaviour that only this store has.
