//! What users rely on, on real SQLite files.

mod basics;
mod support;
