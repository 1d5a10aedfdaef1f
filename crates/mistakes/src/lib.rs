//! The mistakes that authors of workflows make most, and what the compiler says about each: `cases/*.rs` and
//! `cases/*.stderr`. A test compares them.
