//! The grammar: `or` binds weakest, then `and`, then `not`.

use super::error::{ConditionError, ConditionProblem};
use super::field::{RunField, RunFieldKind};
use super::lexer::{Lexer, Token, TokenKind};
use super::{Condition, ConditionSubject, DEPTH_MAX, Literal, Operator, TERMS_MAX, VALUES_MAX};
use crate::argument::{meant, nearest};
use crate::id::TagKey;
use crate::moment::{parse_iso, relative};
use crate::status::Status;
use crate::time::Millis;

pub(super) fn parse(text: &str, now: Millis) -> Result<Condition, ConditionError> {
    let tokens = Lexer::tokens(text)?;
    let mut parser = ConditionParser { text, tokens, at: 0, depth: 0, terms: 0, now };
    let condition = parser.any()?;
    match parser.peek().kind {
        TokenKind::End => Ok(condition),
        _ => Err(parser.unexpected("`and`, `or` or the end")),
    }
}

struct ConditionParser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    terms: usize,
    now: Millis,
}

impl ConditionParser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn take_keyword(&mut self, word: &str) -> bool {
        let is = self.peek().kind.keyword() == Some(word);
        self.at += usize::from(is);
        is
    }

    fn error(
        &self,
        problem: ConditionProblem,
        token: &Token,
        what: String,
        hint: impl Into<String>,
    ) -> ConditionError {
        ConditionError {
            problem,
            text: self.text.to_owned(),
            at: token.at,
            length: token.length,
            what,
            hint: hint.into(),
        }
    }

    fn unexpected(&self, expected: &str) -> ConditionError {
        let token = self.peek();
        let what = format!("expected {expected}, found {}", token.kind.shown());
        self.error(ConditionProblem::Syntax, token, what, format!("expected {expected}"))
    }

    fn any(&mut self) -> Result<Condition, ConditionError> {
        self.joined("or", Self::all, Condition::Or)
    }

    fn all(&mut self) -> Result<Condition, ConditionError> {
        self.joined("and", Self::negated, Condition::And)
    }

    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Condition, ConditionError>,
        join: fn(Vec<Condition>) -> Condition,
    ) -> Result<Condition, ConditionError> {
        let mut parts = vec![part(self)?];
        while self.take_keyword(word) {
            parts.push(part(self)?);
        }
        match parts.len() {
            1 => parts.pop().ok_or_else(|| self.unexpected("a condition")),
            _ => Ok(join(parts)),
        }
    }

    fn deeper(&mut self) -> Result<(), ConditionError> {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            return Ok(());
        }
        let token = &self.tokens[self.at - 1];
        let what = format!("the condition is nested more than {DEPTH_MAX} deep");
        Err(self.error(ConditionProblem::Syntax, token, what, "remove parentheses"))
    }

    fn negated(&mut self) -> Result<Condition, ConditionError> {
        if self.take_keyword("not") {
            self.deeper()?;
            let inner = self.negated()?;
            self.depth -= 1;
            return Ok(Condition::Not(Box::new(inner)));
        }
        if self.peek().kind == TokenKind::Open {
            self.at += 1;
            self.deeper()?;
            let inner = self.any()?;
            if self.peek().kind != TokenKind::Close {
                return Err(self.unexpected("`)`"));
            }
            self.at += 1;
            self.depth -= 1;
            return Ok(inner);
        }
        self.term()
    }

    fn term(&mut self) -> Result<Condition, ConditionError> {
        self.terms += 1;
        if self.terms > TERMS_MAX {
            let what = format!("the condition has more than {TERMS_MAX} comparisons");
            return Err(self.error(
                ConditionProblem::Syntax,
                self.peek(),
                what,
                "use `in (…)`, or shorten it",
            ));
        }
        if self.take_keyword("has") {
            return Ok(Condition::Has(self.subject()?.0));
        }
        let (subject, name) = self.subject()?;
        let token = self.peek().clone();
        if token.kind.keyword() == Some("not") {
            self.at += 1;
            if !self.take_keyword("in") {
                return Err(self.unexpected("`in`"));
            }
            return Ok(Condition::Not(Box::new(self.list(subject, &name)?)));
        }
        if self.take_keyword("in") {
            return self.list(subject, &name);
        }
        let operator = match (&token.kind, token.kind.keyword()) {
            (TokenKind::Sign("="), _) => Operator::Equal,
            (TokenKind::Sign("!="), _) => Operator::NotEqual,
            (TokenKind::Sign("<"), _) => Operator::Less,
            (TokenKind::Sign("<="), _) => Operator::AtMost,
            (TokenKind::Sign(">"), _) => Operator::Greater,
            (TokenKind::Sign(_), _) => Operator::AtLeast,
            (_, Some("contains")) => Operator::Contains,
            (_, Some("starts_with")) => Operator::StartsWith,
            _ => match &subject {
                ConditionSubject::Field(field) if field.kind() == RunFieldKind::Boolean => {
                    let operator = Operator::Equal;
                    let value = Literal::Boolean(true);
                    return Ok(Condition::Compare { subject, operator, value });
                }
                _ => return Err(self.unexpected("an operator: = != < <= > >= in contains starts_with")),
            },
        };
        self.at += 1;
        let (value, at) = self.value(&subject, &name)?;
        self.check_operator(&subject, operator, &value, &at)?;
        Ok(Condition::Compare { subject, operator, value })
    }

    fn list(&mut self, subject: ConditionSubject, name: &Token) -> Result<Condition, ConditionError> {
        if self.peek().kind != TokenKind::Open {
            return Err(self.unexpected("`(`"));
        }
        self.at += 1;
        let mut values: Vec<Literal> = Vec::new();
        loop {
            let (value, at) = self.value(&subject, name)?;
            if values.first().is_some_and(|first| first.kind() != value.kind()) {
                let what = format!("this list mixes {} and {}", values[0].kind(), value.kind());
                return Err(self.error(ConditionProblem::Type, &at, what, "use values of one type"));
            }
            if values.len() == VALUES_MAX {
                let what = format!("this list has more than {VALUES_MAX} values");
                return Err(self.error(ConditionProblem::Syntax, &at, what, "use several conditions"));
            }
            values.push(value);
            match self.peek().kind {
                TokenKind::Comma => self.at += 1,
                TokenKind::Close => break,
                _ => return Err(self.unexpected("`,` or `)`")),
            }
        }
        self.at += 1;
        Ok(Condition::In { subject, values })
    }

    fn subject(&mut self) -> Result<(ConditionSubject, Token), ConditionError> {
        let TokenKind::Word(word) = self.peek().kind.clone() else {
            return Err(self.unexpected("the name of a field or an attribute"));
        };
        if self.peek().kind.keyword().is_some() {
            return Err(self.unexpected("the name of a field or an attribute"));
        }
        let token = self.take();
        let key = |name: &str| {
            TagKey::new(name).map_err(|error| {
                let hint = "names have letters, digits, `.`, `_` and `-`";
                self.error(ConditionProblem::Name, &token, error.to_string(), hint)
            })
        };
        let subject = match (word.strip_prefix("tag."), word.strip_prefix("attr.")) {
            (Some(name), _) => ConditionSubject::Tag(key(name)?),
            (_, Some(name)) => ConditionSubject::Attribute(key(name)?),
            _ => match RunField::named(&word) {
                Some(field) => ConditionSubject::Field(field),
                None => ConditionSubject::Attribute(key(&word)?),
            },
        };
        Ok((subject, token))
    }

    /// Parses a value of the type that the subject has.
    fn value(
        &mut self,
        subject: &ConditionSubject,
        name: &Token,
    ) -> Result<(Literal, Token), ConditionError> {
        let token = self.take();
        let literal = match &token.kind {
            TokenKind::Text(text) => Literal::Text(text.clone()),
            TokenKind::Number(text) => self.number(text, &token)?,
            TokenKind::Word(word) => match token.kind.keyword() {
                Some("true") => Literal::Boolean(true),
                Some("false") => Literal::Boolean(false),
                Some("now") => Literal::Time(self.now),
                Some(_) => {
                    self.at -= 1;
                    return Err(self.unexpected("a value"));
                }
                None => {
                    return self.bare(word, subject, name, &token).map(|literal| (literal, token.clone()));
                }
            },
            _ => {
                self.at -= 1;
                return Err(self.unexpected("a value"));
            }
        };
        let kind = match subject {
            ConditionSubject::Attribute(_) => return Ok((literal, token)),
            ConditionSubject::Tag(_) => RunFieldKind::Text,
            ConditionSubject::Field(field) => field.kind(),
        };
        let fitted = match (kind, literal) {
            (RunFieldKind::Text, Literal::Text(text)) => Ok(Literal::Text(text)),
            (RunFieldKind::Status, Literal::Text(text)) => return Ok((self.status(&text, &token)?, token)),
            (RunFieldKind::Time, Literal::Text(text)) => {
                let at = parse_iso(&text).or_else(|| relative(&text, self.now));
                at.map(Literal::Time).ok_or(Literal::Text(text))
            }
            (RunFieldKind::Integer, number @ (Literal::Integer(_) | Literal::Number(_))) => Ok(number),
            (RunFieldKind::Time, Literal::Time(at)) => Ok(Literal::Time(at)),
            (RunFieldKind::Boolean, Literal::Boolean(value)) => Ok(Literal::Boolean(value)),
            (_, other) => Err(other),
        };
        match fitted {
            Ok(literal) => Ok((literal, token)),
            Err(found) => {
                let what =
                    format!("`{subject}` is compared with {}, found {}", kind.expected(), found.kind());
                Err(self.error(ConditionProblem::Type, &token, what, format!("write {}", kind.expected())))
            }
        }
    }

    /// Parses a word without quotes: a status, or the text of a field.
    fn bare(
        &self,
        word: &str,
        subject: &ConditionSubject,
        name: &Token,
        token: &Token,
    ) -> Result<Literal, ConditionError> {
        match subject {
            ConditionSubject::Field(field) if field.kind() == RunFieldKind::Status => {
                self.status(word, token)
            }
            ConditionSubject::Field(field) if field.kind() == RunFieldKind::Text => {
                Ok(Literal::Text(word.to_owned()))
            }
            ConditionSubject::Field(field) => {
                let expected = field.kind().expected();
                let what = format!("`{subject}` is compared with {expected}, found `{word}`");
                Err(self.error(ConditionProblem::Type, token, what, format!("write {expected}")))
            }
            ConditionSubject::Attribute(attribute) => {
                let known = RunField::ALL.map(RunField::as_str);
                let near = nearest(attribute.as_str(), known);
                match near
                    .first()
                    .filter(|_| matches!(&name.kind, TokenKind::Word(w) if w == attribute.as_str()))
                {
                    Some(_) => {
                        let what =
                            format!("`{attribute}` is not a field{}", meant(attribute.as_str(), known));
                        let hint =
                            format!("for an attribute, put the text in quotes: {attribute} = \"{word}\"");
                        Err(self.error(ConditionProblem::Name, name, what, hint))
                    }
                    None => Err(self.unquoted(word, token)),
                }
            }
            ConditionSubject::Tag(_) => Err(self.unquoted(word, token)),
        }
    }

    fn unquoted(&self, word: &str, token: &Token) -> ConditionError {
        let what = format!("`{word}` is not a value");
        self.error(ConditionProblem::Type, token, what, format!("put texts in double quotes: \"{word}\""))
    }

    fn status(&self, word: &str, token: &Token) -> Result<Literal, ConditionError> {
        word.parse::<Status>().map(Literal::Status).map_err(|error| {
            self.error(ConditionProblem::Type, token, error.to_string(), "use one of these words")
        })
    }

    /// Parses a number or a time. A number is never rounded to an integer or from one.
    fn number(&self, text: &str, token: &Token) -> Result<Literal, ConditionError> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.bytes().all(|c| c.is_ascii_digit()) && !digits.is_empty() {
            return text.parse().map(Literal::Integer).map_err(|_| {
                let what = format!("integer {text} is out of range");
                self.error(
                    ConditionProblem::Syntax,
                    token,
                    what,
                    "write it with a decimal point, as in 1.0e30",
                )
            });
        }
        if let Some(at) = relative(text, self.now).or_else(|| parse_iso(text)) {
            return Ok(Literal::Time(at));
        }
        let is_decimal =
            digits.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'E' | b'+' | b'-'))
                && digits.starts_with(|c: char| c.is_ascii_digit());
        match text.parse::<f64>() {
            Ok(number) if is_decimal && number.is_finite() => Ok(Literal::Number(number + 0.0)),
            _ => {
                let what = format!("`{text}` is not a number and not a time");
                let hint = "numbers: 3, -4, 1.5; times: -2h, -7d, 2026-11-18, 2026-11-18T09:30:00Z, now";
                Err(self.error(ConditionProblem::Syntax, token, what, hint))
            }
        }
    }

    fn check_operator(
        &self,
        subject: &ConditionSubject,
        operator: Operator,
        value: &Literal,
        at: &Token,
    ) -> Result<(), ConditionError> {
        let has_order = matches!(value, Literal::Integer(_) | Literal::Number(_) | Literal::Time(_));
        let is_text = matches!(value, Literal::Text(_));
        if operator.is_order() && !has_order {
            let what = format!("`{}` compares numbers and times, found {}", operator.as_str(), value.kind());
            let hint =
                format!("compare `{subject}` with = != in contains starts_with, or write a number or a time");
            return Err(self.error(ConditionProblem::Type, at, what, hint));
        }
        if operator.is_part() && !is_text {
            let what = format!("`{}` needs a text, found {}", operator.as_str(), value.kind());
            return Err(self.error(ConditionProblem::Type, at, what, "write \"text\""));
        }
        Ok(())
    }
}
