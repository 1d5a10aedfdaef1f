//! Looks a schema over and brings it up to date, for `goldseam store`.
