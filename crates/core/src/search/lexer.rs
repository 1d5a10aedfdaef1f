//! Words, texts, numbers and signs of a condition, each with its place.

use super::error::{ConditionError, ConditionProblem};
use super::field::RunField;
use super::{DEPTH_MAX, LENGTH_MAX};
use crate::id::TagKey;

/// Words with a meaning of their own, in any case.
pub(super) const KEYWORDS: [&str; 10] =
    ["and", "or", "not", "in", "has", "contains", "starts_with", "true", "false", "now"];

/// A token and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) at: usize,
    pub(super) length: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    /// A word: a keyword, a name or a bare value.
    Word(String),
    /// A text in quotes, without escapes.
    Text(String),
    /// A number or a time: begins with a digit or a sign.
    Number(String),
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// `=`, `!=`, `<`, `<=`, `>` or `>=`
    Sign(&'static str),
    /// The end of the text.
    End,
}

impl TokenKind {
    /// Returns the keyword that it is, in lower case.
    pub(super) fn keyword(&self) -> Option<&'static str> {
        let Self::Word(word) = self else { return None };
        KEYWORDS.into_iter().find(|known| known.eq_ignore_ascii_case(word))
    }

    /// Describes it in an error.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) => format!("`{text}`"),
            Self::Text(_) => "a text".to_owned(),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
            Self::Comma => "`,`".to_owned(),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::End => "the end".to_owned(),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | '#')
}

/// Returns whether the name of an attribute needs no `attr.` before it.
pub(super) fn is_bare_attribute(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && RunField::named(name).is_none()
        && !name.starts_with("tag.")
        && !name.starts_with("attr.")
        && !KEYWORDS.iter().any(|known| known.eq_ignore_ascii_case(name))
        && TagKey::new(name).is_ok()
}

/// The text under analysis.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Returns all tokens, the last one being the end.
    pub(super) fn tokens(text: &'a str) -> Result<Vec<Token>, ConditionError> {
        if text.len() > LENGTH_MAX {
            let mut end = 80;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            return Err(ConditionError {
                problem: ConditionProblem::Syntax,
                text: text[..end].to_owned(),
                at: end,
                length: 0,
                what: format!("the condition has {} bytes; the limit is {LENGTH_MAX}", text.len()),
                hint: format!("shorten it; parentheses may be {DEPTH_MAX} deep"),
            });
        }
        let mut lexer = Lexer { text, at: 0 };
        let mut tokens = Vec::new();
        loop {
            let token = lexer.next()?;
            let is_end = token.kind == TokenKind::End;
            tokens.push(token);
            if is_end {
                return Ok(tokens);
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Result<Token, ConditionError> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok(Token { kind: TokenKind::End, at: start, length: 0 });
        };
        let kind = match first {
            '(' => self.sign(1, TokenKind::Open),
            ')' => self.sign(1, TokenKind::Close),
            ',' => self.sign(1, TokenKind::Comma),
            '"' => self.quoted()?,
            '=' | '!' | '<' | '>' => self.comparison()?,
            c if c.is_ascii_alphabetic() || c == '_' => TokenKind::Word(self.take(is_word)),
            c if c.is_ascii_digit() || matches!(c, '-' | '+') => TokenKind::Number(
                self.take(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '+' | '-' | '_')),
            ),
            '\'' => return Err(self.wrong(1, "a text needs double quotes", "write \"text\"")),
            c => {
                let what = format!("unexpected character {c:?}");
                return Err(self.wrong(c.len_utf8(), what, "put texts in double quotes"));
            }
        };
        Ok(Token { kind, at: start, length: self.at - start })
    }

    fn sign(&mut self, length: usize, kind: TokenKind) -> TokenKind {
        self.at += length;
        kind
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let end = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        let taken = self.rest()[..end].to_owned();
        self.at += end;
        taken
    }

    fn comparison(&mut self) -> Result<TokenKind, ConditionError> {
        let signs = ["!=", "<=", ">=", "==", "<>", "=", "<", ">"];
        let Some(sign) = signs.into_iter().find(|sign| self.rest().starts_with(sign)) else {
            return Err(self.wrong(1, "`!` is not an operator", "write != or not"));
        };
        match sign {
            "==" => Err(self.wrong(2, "`==` is not an operator", "write =")),
            "<>" => Err(self.wrong(2, "`<>` is not an operator", "write !=")),
            sign => Ok(self.sign(sign.len(), TokenKind::Sign(sign))),
        }
    }

    fn quoted(&mut self) -> Result<TokenKind, ConditionError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                self.at = start;
                return Err(self.wrong(1, "this text has no closing quote", "add \" at its end"));
            };
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(TokenKind::Text(text));
                }
                '\\' => text.push(self.escape()?),
                c => {
                    text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, ConditionError> {
        let hint = "escapes are \\\" \\\\ \\n \\t and \\u{1F600}";
        let mut rest = self.rest().chars().skip(1);
        let (c, length) = match rest.next() {
            Some('"') => ('"', 2),
            Some('\\') => ('\\', 2),
            Some('n') => ('\n', 2),
            Some('t') => ('\t', 2),
            Some('u') => {
                let code = self.rest().strip_prefix("\\u{").and_then(|rest| rest.split_once('}'));
                let is_hex = |digits: &&str| {
                    (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit())
                };
                let digits = code.map(|(digits, _)| digits).filter(is_hex);
                let c = digits.and_then(|digits| char::from_u32(u32::from_str_radix(digits, 16).ok()?));
                match (c, digits) {
                    (Some(c), Some(digits)) => (c, digits.len() + 4),
                    _ => return Err(self.wrong(2, "unknown escape", hint)),
                }
            }
            _ => return Err(self.wrong(1, "unknown escape", hint)),
        };
        self.at += length;
        Ok(c)
    }

    fn wrong(&self, length: usize, what: impl Into<String>, hint: &str) -> ConditionError {
        ConditionError {
            problem: ConditionProblem::Syntax,
            text: self.text.to_owned(),
            at: self.at,
            length,
            what: what.into(),
            hint: hint.to_owned(),
        }
    }
}
