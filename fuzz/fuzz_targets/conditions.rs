#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| goldseam_fuzz::feed("conditions", data));
