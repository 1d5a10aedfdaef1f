//! Rust code without its comments and strings, for checks that search the code.
//!
//! Invariant: `code` has the same length and the same line breaks as the file it was made of.

use std::ops::Range;

/// A string literal of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Literal {
    /// Where its content begins.
    pub(crate) at: usize,
    /// Its content as written.
    pub(crate) text: String,
}

/// A parsed Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// The code; comments and the contents of literals are blanks.
    pub(crate) code: String,
    /// The strings.
    pub(crate) strings: Vec<Literal>,
    /// Inline `#[cfg(test)] mod … { … }`.
    pub(crate) tests: Vec<Range<usize>>,
}

impl Source {
    /// Parses a file.
    pub(crate) fn new(text: &str) -> Self {
        let mut lexer = Lexer { text, code: text.as_bytes().to_vec(), strings: Vec::new(), at: 0 };
        lexer.run();
        let code = String::from_utf8_lossy(&lexer.code).into_owned();
        let tests = test_modules(&code);
        Self { code, strings: lexer.strings, tests }
    }

    /// The line, from 1, that the byte at `offset` is on.
    pub(crate) fn line(&self, offset: usize) -> usize {
        line_of(&self.code, offset)
    }

    /// Whether the byte at `offset` is inside an inline test module.
    pub(crate) fn in_tests(&self, offset: usize) -> bool {
        self.tests.iter().any(|span| span.contains(&offset))
    }

    /// The positions of `word` in the code, not as part of a longer name.
    pub(crate) fn find_all<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let free = move |at: usize| {
            let before = self.code[..at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            let open_ended = word.ends_with(|c: char| !is_name(c));
            !before.is_some_and(is_name) && (open_ended || !after.is_some_and(is_name))
        };
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| free(*at))
    }

    /// From the bracket at `open` to its partner.
    pub(crate) fn bracketed(&self, open: usize) -> Range<usize> {
        open..closing(&self.code, open)
    }
}

/// The line, from 1, that the byte at `offset` is on.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Whether a file is test code by its path.
pub(crate) fn is_test_file(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    path.starts_with("crates/sim/planted/")
        || parts.next() == Some("tests.rs")
        || parts.any(|part| matches!(part, "tests" | "conformance" | "testing"))
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn test_modules(code: &str) -> Vec<Range<usize>> {
    let module = |(at, mark): (usize, &str)| {
        let rest = &code[at + mark.len()..];
        let open = rest.find(['{', ';'])?;
        let head = rest[..open].trim();
        let is_module = head.starts_with("mod ") || head.contains(" mod ");
        (is_module && rest[open..].starts_with('{')).then(|| {
            let open = at + mark.len() + open;
            at..closing(code, open)
        })
    };
    code.match_indices("#[cfg(test)]").filter_map(module).collect()
}

/// Past the partner of the bracket at `open`, or the end.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

struct Lexer<'a> {
    text: &'a str,
    code: Vec<u8>,
    strings: Vec<Literal>,
    at: usize,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while self.at < self.text.len() {
            let rest = &self.text.as_bytes()[self.at..];
            match rest {
                [b'/', b'/', ..] => {
                    let end = self.find("\n");
                    self.blank(end);
                }
                [b'/', b'*', ..] => {
                    let end = self.block_comment_end();
                    self.blank(end);
                }
                [b'"', ..] => self.string(),
                [b'r', ..] if self.begins_token() => self.raw_or_step(1),
                [b'b' | b'c', b'r', ..] if self.begins_token() => self.raw_or_step(2),
                [b'\'', ..] => self.char_or_lifetime(),
                _ => self.at += 1,
            }
        }
    }

    /// Whether a token begins here: the byte before is not part of a name. Then `r"` begins a raw string.
    fn begins_token(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.text.as_bytes()[at]);
        !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }

    fn raw_or_step(&mut self, prefix: usize) {
        let rest = &self.text.as_bytes()[self.at + prefix..];
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        if rest.get(hashes) != Some(&b'"') {
            self.at += prefix;
            return;
        }
        self.at += prefix + hashes + 1;
        let closing = format!("\"{}", "#".repeat(hashes));
        let end = self.find(&closing);
        self.literal(end);
        self.at = (end + closing.len()).min(self.text.len());
    }

    fn string(&mut self) {
        self.at += 1;
        let end = self.unescaped(b'"');
        self.literal(end);
        self.at = (end + 1).min(self.text.len());
    }

    fn literal(&mut self, end: usize) {
        let literal = Literal { at: self.at, text: self.text[self.at..end].to_owned() };
        self.strings.push(literal);
        self.blank(end);
    }

    fn char_or_lifetime(&mut self) {
        let rest = &self.text[self.at + 1..];
        let mut chars = rest.chars();
        let first = chars.next();
        if first == Some('\\') || chars.next() == Some('\'') {
            self.at += 1;
            let end = self.unescaped(b'\'');
            self.blank(end);
            self.at = (end + 1).min(self.text.len());
        } else {
            self.at += 1;
        }
    }

    /// The next `quote` that no backslash escapes, or the end.
    fn unescaped(&self, quote: u8) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        while at < bytes.len() && bytes[at] != quote {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        // An escape at the end of a broken file may have moved past the end.
        (at..=self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(self.text.len())
    }

    fn block_comment_end(&self) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        let mut depth = 0;
        while at < bytes.len() {
            match &bytes[at..] {
                [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
                [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
                _ => at += 1,
            }
            if depth == 0 {
                break;
            }
        }
        at
    }

    fn find(&self, needle: &str) -> usize {
        self.text[self.at..].find(needle).map_or(self.text.len(), |offset| self.at + offset)
    }

    /// Blanks everything up to `end` except line breaks, and moves there.
    fn blank(&mut self, end: usize) {
        for byte in &mut self.code[self.at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        self.at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_comments_and_strings_in_place() {
        let text = "a(); // b()\n/* c() /* d() */ e() */ f(\"g()\", r#\"h(\"x\")\"#, 'i', b\"j\");";
        let source = Source::new(text);
        assert_eq!(source.code.len(), text.len());
        for gone in ["b()", "c()", "d()", "e()", "g()", "h(", "j"] {
            assert!(!source.code.contains(gone), "{gone} is still in {}", source.code);
        }
        assert!(source.code.contains("a()") && source.code.contains("f("));
        let strings: Vec<&str> = source.strings.iter().map(|literal| literal.text.as_str()).collect();
        assert_eq!(strings, ["g()", "h(\"x\")", "j"]);
    }

    #[test]
    fn lifetimes_and_quotes_in_chars_do_not_open_strings() {
        let source =
            Source::new("fn f<'a>(x: &'a str) { if c == '\"' || c == '\\'' || c == 'ä' { stop() } }");
        assert!(source.code.contains("stop()"));
        assert!(source.strings.is_empty());
    }

    #[test]
    fn escapes_and_broken_files_do_not_panic() {
        assert!(Source::new(r#"let x = "a\"b"; go()"#).code.contains("go()"));
        for broken in ["\"abc", "\"abc\\", "r#\"abc", "/* abc", "'", "'\\", "b'", "\"\\ä"] {
            let _ = Source::new(broken);
        }
    }

    #[test]
    fn finds_inline_test_modules_only() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { {} }\n}\nfn c() {}\n#[cfg(test)]\nmod far;\n";
        let source = Source::new(text);
        let at = |word: &str| text.find(word).unwrap();
        assert!(source.in_tests(at("fn b")));
        assert!(!source.in_tests(at("fn a")) && !source.in_tests(at("fn c")) && !source.in_tests(at("far")));
        assert_eq!(source.line(at("fn b")), 4);
    }

    #[test]
    fn finds_whole_words_only() {
        let source = Source::new("println!(); eprintln!(); my_rand::x; rand::y; Instant::nowhere();");
        assert_eq!(source.find_all("println!").count(), 1);
        assert_eq!(source.find_all("rand::").count(), 1);
        assert_eq!(source.find_all("Instant::now").count(), 0);
    }

    #[test]
    fn recognises_test_files_by_path() {
        assert!(
            is_test_file("crates/core/tests/golden.rs") && is_test_file("crates/core/src/state/tests.rs")
        );
        assert!(is_test_file("crates/conformance/src/append.rs"));
        assert!(is_test_file("crates/sim/planted/crates/core/src/planted.rs"));
        assert!(!is_test_file("crates/core/src/state.rs") && !is_test_file("crates/core/src/tests_of.rs"));
    }
}
