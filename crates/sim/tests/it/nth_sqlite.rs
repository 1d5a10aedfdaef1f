//! Every call of some stories fails once, in every way, on a real file.
